/** The files around a release that other programs read: the action, workflows, the image, the scripts. */

import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzip, tar } from "../../scripts/release/archive.ts";
import { LEASE, ROOT, run, usePlaces } from "../cli/lease.ts";

const newPlace = usePlaces();
const text = (path: string) => readFileSync(join(ROOT, path), "utf8");

describe("lease-run, the action", () => {
  const action = Bun.YAML.parse(text("lease-run/action.yml")) as {
    inputs: Record<string, { required?: boolean; default?: string }>;
    runs: { steps: { env: Record<string, string>; run: string }[] };
  };

  test("hands every input on as a variable, and none into its script", () => {
    const [step] = action.runs.steps;
    const handed = Object.values(step?.env ?? {}).map((value) => /inputs\.(\w+)/.exec(value)?.[1] ?? "");
    expect(handed.toSorted()).toEqual(Object.keys(action.inputs).toSorted());
    expect(step?.run).toBe('"$GITHUB_ACTION_PATH/run.sh"');
  });

  test("runs the line once per key, and ends with its exit code", async () => {
    const place = newPlace();
    const bin = join(place.folder, "bin");
    mkdirSync(bin);
    symlinkSync(LEASE, join(bin, "lease"));
    const step = (line: string, key: string, args = "--task ci --beat timer") =>
      run([join(ROOT, "lease-run/run.sh")], {
        cwd: place.folder,
        env: {
          PATH: `${bin}:${process.env["PATH"]}`,
          LEASE_STORE: place.store,
          LEASE_VERSION: "",
          LEASE_RUN_LINE: line,
          LEASE_RUN_KEY: key,
          LEASE_RUN_LEASE: "10m",
          LEASE_RUN_RETRIES: "0",
          LEASE_RUN_ARGS: args,
        },
      });
    const line = `echo "it's $$" | tee -a runs; env | grep -c ^LEASE_RUN_`;
    const first = await step(`${line}; true`, "a b");
    expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/^it's \d+\n0\n$/) });
    // From its record: it did not run again.
    expect(await step(`${line}; true`, "a b")).toMatchObject({ code: 0, stdout: first.stdout });
    expect(readFileSync(join(place.folder, "runs"), "utf8").split("\n")).toHaveLength(2);
    expect((await step("exit 9", "other", "")).code).toBe(9);
    // `*` is no list of the files that are here.
    expect(await step(`echo "$LEASE_TASK"`, "third", "--task\n *")).toMatchObject({ code: 0, stdout: "*\n" });
  });
});

describe("workflows", () => {
  test.each(["test.yml", "release.yml"])("%s can be read, and names scripts that there are", (name) => {
    const source = text(`.github/workflows/${name}`);
    expect(Bun.YAML.parse(source)).toMatchObject({ jobs: expect.anything() });
    const named = source.match(/(?<=\s|\.\/)(?:scripts\/[\w./]+|\.ci\/run)\b/g) ?? [];
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});

describe("the image", () => {
  const steps = text("Dockerfile")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "");

  test("has steps that docker knows, ends as nobody, and keeps its store in a folder", () => {
    const known = /^(?:FROM|ARG|COPY|RUN|ENV|VOLUME|USER|STOPSIGNAL|ENTRYPOINT|CMD) /;
    expect(steps.filter((step) => !known.test(step))).toEqual([]);
    expect(steps.findLast((step) => step.startsWith("USER"))).toBe("USER 65532:65532");
    expect(steps).toContain("VOLUME /var/lib/lease");
    expect(steps).toContain("ENV LEASE_STORE=/var/lib/lease/lease.db");
  });

  test("takes the archive of its processor, and only if its digest is right", async () => {
    const { folder } = newPlace();
    const script = steps.find((step) => step.startsWith("RUN "))?.slice("RUN ".length) ?? "";
    const here = script.replaceAll(/(?<=\s)\/(release|unpacked|store)\b/g, `${folder}/$1`);
    mkdirSync(join(folder, "release"));
    const name = "lease-1.2.3-linux-arm64.tar.gz";
    const bytes = gzip(tar([{ path: "lease", content: Buffer.from("program"), executable: true }], 0, "lease-1.2.3/"));
    const unpack = async (digest: string, TARGETARCH: string) => {
      for (const made of ["unpacked", "store"]) rmSync(join(folder, made), { recursive: true, force: true });
      writeFileSync(join(folder, "release", name), bytes);
      writeFileSync(join(folder, "release/SHA256SUMS"), `${digest}  ${name}\n`);
      return (await run(["sh", "-c", here], { env: { VERSION: "1.2.3", TARGETARCH } })).code;
    };
    const right = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    expect(await unpack(right, "arm64")).toBe(0);
    expect(readFileSync(join(folder, "unpacked/lease"), "utf8")).toBe("program");
    expect(await unpack(right.replaceAll(/./g, "0"), "arm64")).not.toBe(0);
    expect(await unpack(right, "amd64")).not.toBe(0);
    expect(await unpack(right, "s390x")).not.toBe(0);
  });
});

test.if(Bun.which("shellcheck") !== null)("shellcheck has nothing to say about the shell scripts", async () => {
  const ours = ["setup", "test", "quickstart", "smoke_arm64"].map((name) => `scripts/${name}.sh`);
  const scripts = ["install.sh", "lease-run/run.sh", ".ci/run", ...ours];
  const { stdout } = await run(["shellcheck", "-e", "SC1091,SC2016", ...scripts], { cwd: ROOT });
  expect(stdout).toBe("");
});
