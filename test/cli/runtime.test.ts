/** The runtime inside the executable obeys nobody's environment: lease stays lease, and runs no code but its own. */

import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { inSite } from "../support/process.ts";

describe.skipIf(process.platform !== "linux")("the executable", () => {
  test.each([
    ["BUN_BE_BUN", "1"],
    ["BUN_OPTIONS", "--preload ./evil.ts"],
    ["BUN_OPTIONS", "--eval process.exit(66)"],
    ["BUN_OPTIONS", "--inspect-brk"],
    ["BUN_INSPECT", "ws://127.0.0.1:0/x?break=1"],
    ["BUN_INSPECT_PRELOAD", "./evil.ts"],
    ["BUN_BYTECODE_ORDER_OUT", "./evil"],
    ["NODE_OPTIONS", "--require ./evil.ts"],
  ])("is lease whatever %s=%s says", (name, value) =>
    inSite(async (site) => {
      await Bun.write(site.path("evil.ts"), `require("fs").writeFileSync("evil", ""); process.exit(66)`);
      await Bun.write(site.path("bunfig.toml"), 'preload = ["./evil.ts"]');
      const { code, stdout, stderr } = await site.run(["version"], { env: { [name]: value } });
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: expect.stringMatching(/^lease \d/), stderr: "" });
      const enqueued = await site.run(["enqueue", "--", "true"], { env: { [name]: value } });
      expect(enqueued).toMatchObject({ code: 0, stdout: "1\n", stderr: "" });
      expect(existsSync(site.path("evil"))).toBe(false);
    }),
  );

  test("passes such a variable on to a job that is a program of that runtime", () =>
    inSite(async (site) => {
      const id = await site.script([], 'echo "$BUN_OPTIONS"');
      await site.run(["worker", "--until-empty"], { env: { BUN_OPTIONS: "--smol" } });
      expect((await site.run(["logs", String(id)])).stdout).toBe("--smol\n");
    }));
});
