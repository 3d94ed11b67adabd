/** What macOS answers, made up in the layouts of its headers, and which systems are refused. */

import { describe, expect, test } from "bun:test";
import { decodeEnvironment, decodeProcess, macProcesses } from "../../src/platform/mac.ts";
import { previewText, refuseSystem } from "../../src/platform/system.ts";

/** `struct proc_bsdinfo` of sys/proc_info.h. */
function bsdInfo(fields: {
  status: number;
  ppid: number;
  ruid: number;
  comm: string;
  pgid: number;
  start: [number, number];
}) {
  const bytes = new Uint8Array(136);
  const view = new DataView(bytes.buffer);
  // flags status xstatus pid ppid uid gid ruid rgid svuid svgid rfu_1
  const head = [0, fields.status, 0, 77, fields.ppid, 0, 0, fields.ruid, 0, 0, 0, 0];
  for (const [index, value] of head.entries()) view.setUint32(4 * index, value, true);
  bytes.set(new TextEncoder().encode(fields.comm), 48);
  // comm[16] name[32] nfiles pgid pjobc e_tdev e_tpgid nice start_tvsec start_tvusec
  view.setUint32(100, fields.pgid, true);
  view.setBigUint64(120, BigInt(fields.start[0]), true);
  view.setBigUint64(128, BigInt(fields.start[1]), true);
  return bytes;
}

describe("a process of a Mac", () => {
  test("is read as the header has it", () => {
    const bytes = bsdInfo({ status: 2, ppid: 1, ruid: 501, comm: "sleep", pgid: 70, start: [1_800_000_000, 123_456] });
    expect(decodeProcess(bytes)).toEqual({
      zombie: false,
      parent: 1,
      user: 501,
      group: 70,
      started: 180_000_000_012,
      name: "sleep",
    });
  });

  test("is a zombie when it says so, and may have a name that fills its place", () => {
    const bytes = bsdInfo({ status: 5, ppid: 1, ruid: 0, comm: "sixteen letters!", pgid: 1, start: [1, 0] });
    expect(decodeProcess(bytes)).toMatchObject({ zombie: true, name: "sixteen letters!" });
  });

  test("has its environment behind its path, gaps and words", () => {
    const count = Buffer.alloc(4);
    count.writeInt32LE(3);
    const text = "/bin/sh\0\0\0\0sh\0-c\0\0LEASE_JOB_ID=7\0PATH=/bin\0\0executable_path=/bin/sh\0";
    expect(decodeEnvironment(Buffer.concat([count, Buffer.from(text)]))).toEqual(["LEASE_JOB_ID=7", "PATH=/bin"]);
    expect(decodeEnvironment(Buffer.concat([count, Buffer.from("/bin/sh\0")]))).toEqual([]);
  });

  test.if(process.platform !== "darwin")("is not looked for on another system", () => {
    expect(macProcesses()).toBe(null);
  });
});

describe("a system", () => {
  test("that lease does not run on is told what is missing, and what to use", () => {
    expect(() => refuseSystem("win32")).toThrow(/does not run on Windows: it would need process groups .* WSL 2/);
    expect(() => refuseSystem("freebsd")).toThrow("does not run on freebsd");
    for (const system of ["linux", "darwin"]) expect(() => refuseSystem(system)).not.toThrow();
  });

  test("that is not tested says that it is a preview", () => {
    expect(previewText("linux")).toBe(null);
    expect(previewText("darwin")).toContain("preview");
  });
});
