/** `lease service`: units that systemd understands, printed or put where it looks for them. */

import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const unitsOf = (place: Place) => join(place.folder, ".config/systemd/user");
const unit = (place: Place, file: string) => readFileSync(join(unitsOf(place), file), "utf8");
const execStart = (text: string) => /^ExecStart=(.*)$/m.exec(text)?.[1] ?? "";

function handler(place: Place): void {
  writeFileSync(join(place.folder, "send.sh"), "#!/bin/sh\n");
  chmodSync(join(place.folder, "send.sh"), 0o755);
}

describe("lease service", () => {
  test("prints a worker and the watchdog with its timer, and writes nothing", async () => {
    const place = newPlace();
    const { code, stdout, stderr } = await place.lease("service", "--", "-j", "4");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const files = ["lease-worker.service", "lease-watchdog.service", "lease-watchdog.timer"];
    expect([...(stdout.match(/^# \/.*$/gm) ?? [])]).toEqual(files.map((file) => `# ${join(unitsOf(place), file)}`));
    for (const line of ["Type=notify", "WatchdogSec=60s", "Delegate=yes", "KillMode=mixed", "Restart=always"]) {
      expect(stdout).toContain(`\n${line}\n`);
    }
    expect(execStart(stdout)).toBe(`${LEASE} worker --store=${place.store} -j 4`);
    expect(stdout).toContain(`ExecStart=${LEASE} watchdog --once --store=${place.store}\n`);
    expect(existsSync(unitsOf(place))).toBe(false);
  });

  test("installs them once, says what comes next, and leaves alone what others wrote", async () => {
    const place = newPlace();
    handler(place);
    const args = ["service", "--install", "--name", "mail", "--", "-q", "mail", "--", "./send.sh", "50%", "$HOME"];
    const first = await place.lease(...args);
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(/^(?:\/\S+\n){3}$/);
    expect(first.stderr).toContain(
      "systemctl --user enable --now lease-mail-worker.service lease-mail-watchdog.timer\n",
    );
    const text = unit(place, "lease-mail-worker.service");
    expect(execStart(text)).toEndWith(` -q mail -- ${place.folder}/send.sh 50%% "$$HOME"`);
    expect((await place.lease(...args)).stdout).toBe(first.stdout.replaceAll("\n", " (unchanged)\n"));
    const changed = await place.lease(...args.slice(0, 4));
    expect(changed.stdout.match(/unchanged/g)).toHaveLength(2);
    expect(execStart(unit(place, "lease-mail-worker.service"))).not.toContain("send.sh");

    writeFileSync(join(unitsOf(place), "lease-worker.service"), "[Service]\nExecStart=/bin/true\n");
    expectRefusal(await place.lease("service", "--install"), 2, /lease-worker\.service is there, and not from lease/);
    expect(unit(place, "lease-worker.service")).toContain("/bin/true");
  });

  test("waits for as long as the worker may take to stop, also when lease.toml says so", async () => {
    const place = newPlace();
    const stop = async (...flags: string[]) =>
      /^TimeoutStopSec=(.*)$/m.exec((await place.lease("service", ...flags)).stdout)?.[1];
    expect(await stop()).toBe("55s");
    expect(await stop("--", "--drain", "10m", "--grace", "1m")).toBe("11m15s");
    writeFileSync(join(place.folder, "lease.toml"), '[worker]\ndrain = "2m"\n');
    expect(await stop()).toBe("2m25s");
    expect((await place.lease("service")).stdout).toContain(`--config=${place.folder}/lease.toml`);
  });

  test("puts a password into a file that nobody else reads, and nowhere else", async () => {
    const place = newPlace();
    const args = ["service", "--store", "postgres://lease:s3cret@db.example/lease"];
    const printed = await place.lease(...args);
    expect(printed.stdout + printed.stderr).not.toContain("s3cret");
    expect((await place.lease(...args, "--install")).code).toBe(0);
    const secrets = join(place.folder, ".config/lease/lease.env");
    expect(readFileSync(secrets, "utf8")).toBe("LEASE_STORE='postgres://lease:s3cret@db.example/lease'\n");
    expect(statSync(secrets).mode & 0o777).toBe(0o600);
    for (const file of ["lease-worker.service", "lease-watchdog.service"]) {
      expect(unit(place, file)).toContain(`EnvironmentFile=${secrets}\n`);
      expect(unit(place, file)).not.toContain("s3cret");
    }
  });

  test("refuses at once what the service would fail with", async () => {
    const place = newPlace();
    const refused = async (message: RegExp, code: number, ...args: string[]) =>
      expectRefusal(await place.lease("service", ...args), code, message);
    await refused(/unknown flag --slotz; did you mean --slots\?/, 2, "--", "--slotz", "4");
    await refused(/-j "many" is not a whole number|-j .*many/, 2, "--", "-j", "many");
    await refused(/a service goes on: leave out --until-empty/, 2, "--", "--until-empty");
    await refused(/the watchdog needs --store too: write it before the --/, 2, "--", "--store", "x.db");
    await refused(/write --log-dir \//, 2, "--", "--log-dir", "logs");
    await refused(/handler not found: \.\/none\.sh/, 127, "--", "--", "./none.sh");
    await refused(/behind --: lease service -- -q mail/, 2, "mail");
    await refused(/unknown flag -j; flags of worker go behind --: lease service -- -j/, 2, "-j", "4");
    await refused(/--as goes with --system/, 2, "--as", "bob");
    await refused(/systemd takes letters/, 2, "--name", "a/b");
  });
});

describe("systemd", () => {
  const missing = Bun.which("systemd-analyze") === null;
  if (missing) console.warn("SKIPPED: the units are not shown to systemd, because there is no systemd-analyze here");

  test.skipIf(missing).each([
    [["--", "-j", "4", "-q", "a b", "-q", "mail", "--", "./send.sh", "50%", "$HOME", 'a "b"\t\\'], "--user"],
    [["--no-watchdog", "--trust-store"], "--user"],
    [["--system", "--as", "daemon", "--store", "postgres://u:s3cret@db.example/x"], "--system"],
  ])("finds nothing wrong with what %j gives", async (args, scope) => {
    const place = newPlace();
    handler(place);
    const { stdout } = await place.lease("service", ...args);
    const folder = join(place.folder, "units");
    mkdirSync(folder);
    const parts = stdout.split(/^# \/\S*\/(lease-\S+)\n/m).slice(1);
    const files: string[] = [];
    for (let at = 0; at < parts.length; at += 2) {
      const file = join(folder, parts[at] ?? "");
      writeFileSync(file, parts[at + 1] ?? "");
      files.push(file);
    }
    expect(files.length).toBe(args.includes("--no-watchdog") ? 1 : 3);
    const verify = await run(["systemd-analyze", "verify", scope, ...files], {
      env: { XDG_RUNTIME_DIR: place.folder, HOME: place.folder },
    });
    expect(verify).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});
