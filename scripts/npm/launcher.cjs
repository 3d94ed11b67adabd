#!/usr/bin/env node
"use strict";
// Starts the lease that is made for this system, and is not in its way: where Node can, it becomes it; elsewhere it
// passes on signals, the terminal and how it ended. It is a convenience: the executable in @lease/cli-SYSTEM/bin/lease
// can be started by itself. LEASE_BINARY names another one.
const { spawn } = require("node:child_process");
const { accessSync, constants, readFileSync, statSync } = require("node:fs");
const os = require("node:os");

const CAN_NOT = 125;

function fail(text) {
  process.stderr.write(`lease: ${text}\n`);
  process.exit(CAN_NOT);
}

/** Which of the two is for this C library; asked only where npm has installed both. */
function isMusl() {
  try {
    return /\bmusl\b/.test(readFileSync("/usr/bin/ldd", "latin1"));
  } catch {
    return process.report.getReport().header.glibcVersionRuntime === undefined;
  }
}

function found(name) {
  try {
    return [require.resolve(`@lease/cli-${name}/bin/lease`)];
  } catch {
    return [];
  }
}

function binary() {
  const given = process.env["LEASE_BINARY"];
  if (given) return given;
  const { platform, arch } = process;
  if (platform === "win32") {
    fail("it does not run on Windows: it needs process groups, signals and /proc, or what macOS has for it; use WSL 2");
  }
  const name = `${platform}-${arch}`;
  const [plain, musl] = [found(name), found(`${name}-musl`)];
  const [chosen] = plain.length > 0 && musl.length > 0 ? (isMusl() ? musl : plain) : [...plain, ...musl];
  if (chosen !== undefined) return chosen;
  return fail(
    `@lease/cli-${name} is not installed: was npm told to leave out optional dependencies, or is this a system that ` +
      "lease is not built for? LEASE_BINARY can name an executable",
  );
}

const program = binary();
const words = process.argv.slice(2);

// From Node 22.15: nothing of us is left, so there is nothing to pass on.
if (typeof process.execve === "function") {
  // It does not come back with an error, it aborts: so what can go wrong is looked at first.
  try {
    accessSync(program, constants.X_OK);
    if (statSync(program).isDirectory()) throw new Error("it is a folder");
  } catch (error) {
    fail(`${program} can't be started: ${error.message}`);
  }
  process.execve(program, [program, ...words], process.env);
}

const child = spawn(program, words, { stdio: "inherit" });
const at_terminal = [0, 1, 2].some((fd) => require("node:tty").isatty(fd));
// What a terminal sends it sends to both of us; passed on it would count as a second one, which ends a drain at once.
const FROM_TERMINAL = new Set(["SIGINT", "SIGQUIT", "SIGHUP"]);
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT"]) {
  process.on(signal, () => {
    if (!at_terminal || !FROM_TERMINAL.has(signal)) child.kill(signal);
  });
}
child.on("error", (error) => fail(`${program} can't be started: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Where that does not end us, as with a signal that is ignored.
  setTimeout(() => process.exit(128 + (os.constants.signals[signal] || 0)), 100);
});
