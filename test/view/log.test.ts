import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { LogText, logJson, STAMPED, type LogFormat } from "../../src/view/log.ts";

type Stream = "stdout" | "stderr";
type Printed = [stream: Stream, bytes: string | Uint8Array, at_ms?: number];

const AT_MS = Date.UTC(2030, 0, 1, 9, 30);
const STAMP = "2030-01-01T09:30:00.000Z";

/** Latin-1, so that each byte of what is written is one character here. */
function shown(
  options: { stream?: Stream | "both"; timestamps?: boolean; format?: LogFormat },
  show: (log: LogText, add: (...entries: Printed[]) => void) => void,
): string {
  let text = "";
  const format = options.format ?? (options.timestamps === true ? STAMPED : null);
  const log = new LogText({ stream: options.stream ?? "both", format }, (bytes) => {
    text += Buffer.from(bytes).toString("latin1");
  });
  show(log, (...entries) => {
    for (const [stream, piece, at_ms = AT_MS] of entries) {
      log.add({ stream, at_ms, bytes: typeof piece === "string" ? Buffer.from(piece, "latin1") : piece });
    }
  });
  log.end();
  return text;
}

describe("a log without timestamps", () => {
  test("shows both streams as they came", () => {
    const text = shown({}, (_log, add) => add(["stdout", "one\n"], ["stderr", "oh\n"], ["stdout", "two\n"]));
    expect(text).toBe("one\noh\ntwo\n");
  });

  test("shows only the stream that was asked for", () => {
    const all: Printed[] = [
      ["stdout", "on"],
      ["stderr", "oh\n"],
      ["stdout", "e\n"],
    ];
    expect(shown({ stream: "stdout" }, (_log, add) => add(...all))).toBe("one\n");
    expect(shown({ stream: "stderr" }, (_log, add) => add(...all))).toBe("oh\n");
  });

  test("passes bytes through untouched, whatever they mean", () => {
    const bytes = new Uint8Array([0, 255, 192, 128, 27, 91, 13, 10]);
    const text = shown({}, (_log, add) => add(["stdout", bytes]));
    expect(text).toBe(Buffer.from(bytes).toString("latin1"));
  });

  test("is written as it comes, without waiting for the end of a line", () => {
    const written: number[] = [];
    const log = new LogText({ stream: "both", format: null }, (bytes) => written.push(bytes.length));
    log.add({ stream: "stdout", at_ms: AT_MS, bytes: new Uint8Array(3) });
    expect(written).toEqual([3]);
  });

  test("ends its last line, and only when it was unfinished", () => {
    expect(shown({}, (_log, add) => add(["stdout", "50%"]))).toBe("50%\n");
    expect(shown({}, (_log, add) => add(["stdout", "done\n"]))).toBe("done\n");
    expect(shown({}, () => {})).toBe("");
  });
});

describe("a log with timestamps", () => {
  test("begins each line with when it was printed", () => {
    const text = shown({ timestamps: true }, (_log, add) =>
      add(["stdout", "one\ntwo\n"], ["stderr", "oh\n", AT_MS + 1_500]),
    );
    expect(text).toBe(`${STAMP} one\n${STAMP} two\n2030-01-01T09:30:01.500Z oh\n`);
  });

  test("puts a line together that came in pieces, and dates it by its first", () => {
    const text = shown({ timestamps: true }, (_log, add) =>
      add(
        ["stdout", "o"],
        ["stdout", "n", AT_MS + 100],
        ["stdout", "e\ntw", AT_MS + 200],
        ["stdout", "o\n", AT_MS + 300],
      ),
    );
    expect(text).toBe(`${STAMP} one\n2030-01-01T09:30:00.200Z two\n`);
  });

  test("never mixes two streams within a line", () => {
    const text = shown({ timestamps: true }, (_log, add) =>
      add(["stdout", "out"], ["stderr", "err"], ["stdout", "put\n"], ["stderr", "or\n"]),
    );
    expect(text).toBe(`${STAMP} output\n${STAMP} error\n`);
  });

  test("shows lines that never ended, one for each stream", () => {
    const text = shown({ timestamps: true }, (_log, add) => add(["stdout", "half"], ["stderr", "way"]));
    expect(text).toBe(`${STAMP} half\n${STAMP} way\n`);
  });

  test("keeps empty lines, carriage returns and invalid UTF-8", () => {
    const text = shown({ timestamps: true }, (_log, add) => add(["stdout", "\n10%\r20%\r\n\xff\xc0\n"]));
    expect(text).toBe(`${STAMP} \n${STAMP} 10%\r20%\r\n${STAMP} \xff\xc0\n`);
  });

  test("keeps a character whole whose bytes came apart", () => {
    const [first, second] = [new Uint8Array([0xe2, 0x82]), new Uint8Array([0xac, 10])];
    const text = shown({ timestamps: true }, (_log, add) =>
      add(["stdout", first], ["stderr", "x\n"], ["stdout", second]),
    );
    expect(Buffer.from(text, "latin1").toString()).toBe(`${STAMP} x\n${STAMP} €\n`);
  });

  test("prints a line without end in pieces instead of collecting it", () => {
    let most = 0;
    let total = 0;
    const log = new LogText({ stream: "both", format: STAMPED }, (bytes) => {
      most = Math.max(most, bytes.length);
      total += bytes.length;
    });
    for (let piece = 0; piece < 64; piece++) log.add({ stream: "stdout", at_ms: AT_MS, bytes: new Uint8Array(16_384) });
    log.end();
    expect(total).toBeGreaterThanOrEqual(64 * 16_384);
    expect(most).toBeLessThan(128 * 1024);
  });

  test("shows only the stream that was asked for", () => {
    const text = shown({ timestamps: true, stream: "stderr" }, (_log, add) =>
      add(["stdout", "one\n"], ["stderr", "oh\n"]),
    );
    expect(text).toBe(`${STAMP} oh\n`);
  });
});

describe("a gap in a log", () => {
  test("says how much was not kept, on a line of its own", () => {
    const text = shown({}, (log, add) => {
      add(["stdout", "head"]);
      log.gap(4_096);
      add(["stdout", "tail\n"]);
    });
    expect(Buffer.from(text, "latin1").toString()).toBe("head\n[… 4096 bytes were not kept …]\ntail\n");
  });

  test("ends what was unfinished before it, also with timestamps", () => {
    const text = shown({ timestamps: true }, (log, add) => {
      add(["stdout", "head"], ["stderr", "oh"]);
      log.gap(1);
      add(["stdout", "tail\n"]);
    });
    expect(Buffer.from(text, "latin1").toString()).toBe(
      `${STAMP} head\n${STAMP} oh\n[… 1 bytes were not kept …]\n${STAMP} tail\n`,
    );
  });
});

describe("whatever a job printed, in whatever pieces", () => {
  const pieces = fc.array(
    fc.record({
      stream: fc.constantFrom<Stream>("stdout", "stderr"),
      bytes: fc.uint8Array({ maxLength: 30, min: 8, max: 14 }),
    }),
    { maxLength: 30 },
  );

  test("the log without timestamps is those bytes, and one stream of it the bytes of that stream", () => {
    fc.assert(
      fc.property(pieces, fc.constantFrom<Stream | "both">("both", "stdout", "stderr"), (printed, stream) => {
        const text = shown({ stream }, (_log, add) => add(...printed.map((p): Printed => [p.stream, p.bytes])));
        const wanted = printed.filter((piece) => stream === "both" || piece.stream === stream);
        const plain = Buffer.concat(wanted.map(({ bytes }) => bytes)).toString("latin1");
        expect(text).toBe(plain === "" || plain.endsWith("\n") ? plain : `${plain}\n`);
      }),
    );
  });

  test("the log with timestamps has the lines of each stream, in order, each with a time", () => {
    fc.assert(
      fc.property(pieces, (printed) => {
        for (const stream of ["stdout", "stderr"] as const) {
          const text = shown({ stream, timestamps: true }, (_log, add) =>
            add(...printed.map((p): Printed => [p.stream, p.bytes])),
          );
          const own = printed.filter((piece) => piece.stream === stream);
          const plain = Buffer.concat(own.map(({ bytes }) => bytes)).toString("latin1");
          const lines = plain.split("\n");
          if (lines.at(-1) === "") lines.pop();
          expect(text).toBe(lines.map((line) => `${STAMP} ${line}\n`).join(""));
        }
      }),
    );
  });
});

describe("a log as JSON", () => {
  test("is an object per line, with its stream, its time and the attempt it is of", () => {
    let attempt = 1;
    const text = shown({ format: logJson(7, () => attempt) }, (log, add) => {
      add(["stdout", "on"], ["stderr", "oh\n"], ["stdout", "e\n"]);
      log.gap(5);
      attempt = 2;
      add(["stdout", "unfinished"]);
    });
    const common = { schema: 1, job: 7, attempt: 1, at: STAMP };
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    expect(lines).toEqual([
      { ...common, stream: "stderr", text: "oh" },
      { ...common, stream: "stdout", text: "one" },
      { ...common, at: null, stream: null, text: null, bytes_not_kept: 5 },
      { ...common, attempt: 2, stream: "stdout", text: "unfinished" },
    ]);
  });
});
