import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { ansi, plain, type Screen } from "../../src/view/style.ts";
import { renderPairs, renderTable, type Column } from "../../src/view/table.ts";
import { displayWidth } from "../../src/view/text.ts";

interface Row {
  id: number;
  name: string;
  note: string | null;
}

const columns: Column<Row>[] = [
  { title: "ID", cell: ({ id }) => String(id), align: "right" },
  { title: "COMMAND", cell: ({ name }) => name, shrink_to: 6 },
  {
    title: "NOTE",
    short_title: "N",
    cell: ({ note }) => note,
    optional: true,
    drop: 1,
  },
];

const rows: Row[] = [
  { id: 7, name: "./build.sh release", note: null },
  { id: 128, name: "ls", note: "漢" },
];

const screen = (width: number | null, paint = plain): Screen => ({ now_ms: 0, width, paint });
const table = (width: number | null, shown = rows) => renderTable(columns, shown, screen(width)).split("\n");

describe("a table", () => {
  test("is as wide as its content, with one rule and nothing trailing", () => {
    expect(table(null)).toEqual([
      " ID  COMMAND             NOTE",
      "─────────────────────────────",
      "  7  ./build.sh release  ·",
      "128  ls                  漢",
    ]);
  });

  test("leaves out an optional column that no row uses", () => {
    expect(table(null, rows.slice(0, 1))[0]).toBe("ID  COMMAND");
  });

  test("keeps an optional column when a row is worth it", () => {
    const queue: Column<string> = { title: "QUEUE", cell: (name) => name, optional: (name) => name !== "default" };
    expect(renderTable([queue], ["default"], screen(null))).not.toContain("default");
    expect(renderTable([queue], ["default", "mail"], screen(null))).toContain("default");
  });

  test("in a narrow terminal shortens titles first, then cuts what may shrink", () => {
    expect(table(27)).toEqual([
      " ID  COMMAND             N",
      "─".repeat(27),
      "  7  ./build.sh release  ·",
      "128  ls                  漢",
    ]);
    expect(table(20)[2]).toBe("  7  ./build.sh…  ·");
  });

  test("leaves out what may go only when cutting is not enough", () => {
    expect(table(15)).toEqual([" ID  COMMA…  N", "─".repeat(15), "  7  ./bui…  ·", "128  ls      漢"]);
    expect(table(13)[0]).toBe(" ID  COMMAND");
  });

  test("paints cells without changing where they stand", () => {
    const painted = renderTable(
      [
        { title: "STATE", cell: () => ({ text: "failed", style: ansi.red }) },
        { title: "ID", cell: () => "7" },
      ],
      [null],
      screen(null, ansi),
    );
    expect(painted).toContain("\u001b[31mfailed\u001b[0m  7");
    expect(Bun.stripANSI(painted)).toBe("STATE   ID\n──────────\nfailed  7");
  });

  test("lets no escape sequence and no line end through", () => {
    const text = renderTable(columns, [{ id: 1, name: "\u001b[2J\nx", note: null }], screen(null));
    expect(text).toContain(String.raw`\x1b[2J\nx`);
    expect(text.split("\n")).toHaveLength(3);
  });

  test("in a very narrow terminal has no empty columns, and whole ids", () => {
    const wide: Column<Row>[] = [
      { title: "ID", cell: ({ id }) => String(id), align: "right" },
      { title: "NOTHING", cell: () => null },
      { title: "STATE", cell: ({ name }) => name },
      { title: "NOUGHT", cell: () => "" },
    ];
    const row = { id: 200_123, name: "cancelled", note: null };
    expect(renderTable(wide, [row], screen(17))).toBe("    ID  STATE\n─────────────────\n200123  cancelled");
    expect(renderTable(wide, [row], screen(12))).toContain("\n200123  can…");
  });

  test("never takes more columns than the terminal has, down to the narrowest", () => {
    const row = fc.record({ id: fc.nat(), name: fc.string({ unit: "grapheme" }), note: fc.option(fc.string()) });
    fc.assert(
      fc.property(fc.array(row, { minLength: 1 }), fc.integer({ min: 10, max: 120 }), (any, width) => {
        for (const line of table(width, any)) expect(displayWidth(line)).toBeLessThanOrEqual(width);
      }),
    );
  });
});

test("pairs stand in two columns and wrap within the second", () => {
  const pairs = [
    ["queue", "mail"],
    ["settings", "timeout 10m and lease 5m"],
  ] as const;
  expect(renderPairs(pairs, screen(24))).toBe("queue     mail\nsettings  timeout 10m\n          and lease 5m");
});
