/** `lease logs` of one job and of several: the last lines, prefixes, codes, and jobs that have not begun. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, inTerminal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

describe("logs -n", () => {
  test.each([
    ["3", "98\n99\n100\n"],
    ["1", "100\n"],
    ["100", Array.from({ length: 100 }, (_, index) => `${index + 1}\n`).join("")],
    ["5000", Array.from({ length: 100 }, (_, index) => `${index + 1}\n`).join("")],
  ])("shows the last %s lines", async (count, text) => {
    const place = newPlace();
    await place.enqueue("--", "seq", "1", "100");
    await place.work();
    expect((await place.lease("logs", "-n", count, "1")).stdout).toBe(text);
  });

  test("counts a last line that has no end, and lines of the wanted stream only", async () => {
    const place = newPlace();
    await place.enqueue("-c", "echo a; sleep 0.1; echo x >&2; sleep 0.1; echo b; sleep 0.1; printf c");
    await place.work();
    expect((await place.lease("logs", "-n", "2", "1")).stdout).toBe("b\nc\n");
    expect((await place.lease("logs", "-n", "3", "--stream", "stdout", "1")).stdout).toBe("a\nb\nc\n");
    expect((await place.lease("logs", "-n", "1", "--stream", "stderr", "1")).stdout).toBe("x\n");
  });

  test("finds them in a log of many pieces, without a gap where none is", async () => {
    const place = newPlace();
    await place.enqueue("-c", "seq 1 200000; sleep 0.5; seq 200001 400000");
    await place.work();
    const { stdout } = await place.lease("logs", "-n", "150000", "1");
    const lines = stdout.trimEnd().split("\n");
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([150_000, "250001", "400000"]);
  });
});

describe("logs of several jobs", () => {
  test("are told apart by their ids, followed or not", async () => {
    const place = newPlace();
    await place.enqueue("--", "echo", "one");
    for (let count = 2; count <= 10; count++) await place.enqueue("-c", "echo ten >&2; printf end");
    await place.work();
    const text = " 1 | one\n10 | ten\n10 | end\n";
    expect(await place.lease("logs", "1", "10")).toEqual({ code: 0, stdout: text, stderr: "" });
    expect(await place.lease("logs", "-f", "1", "10")).toEqual({ code: 0, stdout: text, stderr: "" });
    expectRefusal(await place.lease("logs", "1", "11"), 1, "there is no job 11");
  });
});

describe("logs --exit-status", () => {
  test("is the job's code, of several that of the first that did not complete, and 1 of one that has not ended", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.enqueue("--retries", "0", "-c", "exit 7");
    await place.work();
    await place.enqueue("--delay", "1h", "--", "true");
    const codes = [];
    for (const ids of [["1"], ["2"], ["1", "2"], ["3"]]) {
      codes.push((await place.lease("logs", "--exit-status", ...ids)).code);
    }
    expect(codes).toEqual([0, 7, 7, 1]);
  });
});

test("logs of a job that has not begun say so, with the reason", async () => {
  const place = newPlace();
  await place.enqueue("-q", "gpu", "--", "true");
  expect(await place.lease("logs", "1")).toEqual({
    code: 0,
    stdout: "",
    stderr: "lease: nothing printed yet: job 1 is pending: no worker serves queue gpu\n",
  });
});

test("logs of a job that printed nothing say so to a person, and are empty in a pipe", async () => {
  const place = newPlace();
  await place.enqueue("--", "true");
  await place.enqueue("-c", "echo out");
  await place.work();
  await place.enqueue("--", "true");
  await place.lease("cancel", "3");
  const shown = async (...args: string[]) => (await inTerminal(place, ["logs", ...args])).screen.replaceAll("\r", "");
  expect(await shown("1")).toBe("lease: job 1 printed nothing\n");
  expect(await shown("-f", "1")).toBe("lease: job 1 printed nothing\n");
  expect(await shown("2")).toBe("out\n");
  expect(await shown("2", "--stream", "stderr")).toBe("lease: job 2 printed nothing on stderr\n");
  expect(await shown("3")).toBe("lease: job 3 never ran\n");
  expect(await place.lease("logs", "1")).toEqual({ code: 0, stdout: "", stderr: "" });
});
