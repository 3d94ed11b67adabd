import { describe, expect, test } from "bun:test";
import { TerminalLog } from "../../../src/cli/log_stream.ts";

/** A terminal with room for so many bytes; none while it is stopped. */
function terminal() {
  const state = { room: Infinity, shown: "" };
  const log = new TerminalLog((bytes) => {
    const taken = bytes.subarray(0, state.room);
    if (taken.length === 0) throw Object.assign(new Error("would wait"), { code: "EAGAIN" });
    state.room -= taken.length;
    state.shown += new TextDecoder().decode(taken);
    return taken.length;
  });
  return { log, state };
}

describe("the log at a terminal", () => {
  test("is what was written while it goes on", () => {
    const { log, state } = terminal();
    for (const text of ["one\n", "two\n"]) expect(log.write(text)).toBe(true);
    expect(state.shown).toBe("one\ntwo\n");
  });

  test("drops and counts what a stopped one does not take, and says so when it goes on", () => {
    const { log, state } = terminal();
    state.room = 0;
    for (let line = 0; line < 1_000; line++) expect(log.write("lost\n")).toBe(false);
    state.room = Infinity;
    log.write("here\n");
    log.write("again\n");
    expect(state.shown).toBe("\r\n1000 lines of the log are not shown: this terminal was stopped\r\nhere\nagain\n");
  });

  test("ends a line that was taken in part before it goes on", () => {
    const { log, state } = terminal();
    state.room = 3;
    log.write("whole line\n");
    log.write("lost\n");
    state.room = Infinity;
    log.write("next\n");
    expect(state.shown).toBe("whole line\n\r\n1 line of the log is not shown: this terminal was stopped\r\nnext\n");
  });
});
