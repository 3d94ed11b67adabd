/** `lease copy` through the binary: from a file to a database and back, and what it refuses. */

import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { newSchema, type Schema } from "../support/postgres.ts";
import { expectRefusal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const schemas: Schema[] = [];
afterAll(async () => {
  for (const schema of schemas) await schema.drop();
});

async function database(): Promise<string> {
  const schema = await newSchema();
  schemas.push(schema);
  return schema.url;
}

describe("lease copy", () => {
  test("takes a store to PostgreSQL and back, with all that can be seen of it", async () => {
    const place = newPlace();
    const url = await database();
    await place.enqueue(
      "--task",
      "t",
      "--input",
      "späße",
      "-c",
      'cat; "$LEASE" checkpoint half; exit 3',
      "--retries",
      "0",
    );
    await place.enqueue("--after-any", "1", "--", "echo", "done");
    await place.work();
    const third = await place.enqueue("--delay", "1h", "--key", "k", "--", "true");
    const there = await place.lease("copy", "--to", url);
    expect(there).toMatchObject({ code: 0, stderr: "" });
    expect(there.stdout).toMatch(/^copied 3 jobs, 1 input, 2 attempts, .* both have digest [0-9a-f]{16}\n$/);
    expect(there.stdout).not.toContain("secret");
    const back = join(place.folder, "back.db");
    const { stdout, code } = await place.lease("copy", "--store", url, "--to", back, "--json");
    expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ schema: 1, jobs: 3, logs: 2, to: back })]);
    for (const store of [url, back]) {
      for (const words of [
        ["inspect", "1", "--json"],
        ["inspect", "jobs", "--json"],
        ["logs", "1"],
        ["logs", "2"],
      ]) {
        const [command = "", ...rest] = words;
        const original = await place.lease(command, ...rest);
        expect(await place.lease(command, "--store", store, ...rest)).toEqual(original);
      }
      const next = await place.lease("enqueue", "--store", store, "--", "true");
      expect(next.stdout).toBe(`${third + 1}\n`);
    }
  });

  test("is refused into a store that is in use, with its own store, and without saying where", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const other = newPlace();
    await other.enqueue("--", "true");
    expectRefusal(await place.lease("copy", "--to", other.store), 2, "holds jobs already");
    expectRefusal(await place.lease("copy", "--to", place.store), 2, "onto itself");
    expectRefusal(await place.lease("copy"), 2, "--to");
    expectRefusal(await newPlace().lease("copy", "--to", other.store), 1, "there is no store");
  });

  test("is refused while a worker is live, unless forced", async () => {
    const place = newPlace();
    const url = await database();
    // The job is the one that copies: its worker is certainly there.
    const script = `"$LEASE" copy --to "${url}" 2>&1; echo "exit $?"; "$LEASE" copy --to "${url}" --force >&2; echo "exit $?"`;
    const id = await place.enqueue("--retries", "0", "-c", script);
    await place.work();
    const log = await place.log(id);
    expect(log).toContain("has live workers");
    expect(log).toContain("exit 125");
    expect((await place.lease("inspect", "--store", url, "--json")).code).toBe(0);
  });
});
