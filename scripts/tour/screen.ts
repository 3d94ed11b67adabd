/**
 * A terminal's screen: what is on it after these bytes. It knows what lease prints (text, colours, moving the cursor,
 * erasing), and says so when something else comes.
 */

export interface Cell {
  text: string;
  /** As SGR numbers: `1;32`. */
  style: string;
}

const BLANK: Cell = { text: " ", style: "" };
const [ESC, BEL] = ["\u001b", "\u0007"];
/** A control sequence with its values and its letter, a title, what else escapes, a move, or a character. */
const TOKEN = new RegExp(
  String.raw`${ESC}\[([?\d;]*)([A-Za-z])|${ESC}\][^${BEL}]*${BEL}|${ESC}[=>78]|[\r\n\x08${BEL}]|[^${ESC}\r\n\x08${BEL}]`,
  "gu",
);
const UNFINISHED = new RegExp(String.raw`${ESC}(?:\[[?\d;]*)?$`);

export class Screen {
  rows: Cell[][] = [[]];
  readonly #columns: number;
  #row = 0;
  #column = 0;
  #style = "";
  #rest = "";

  constructor(columns: number) {
    this.#columns = columns;
  }

  feed(text: string): void {
    const given = this.#rest + text;
    // The beginning of something whose end comes with the next bytes.
    const [cut = ""] = UNFINISHED.exec(given) ?? [];
    this.#rest = cut;
    const whole = given.slice(0, given.length - cut.length);
    for (const [token, values, action] of whole.matchAll(TOKEN)) {
      if (action !== undefined) this.#control(values ?? "", action);
      else if (token === "\r") this.#column = 0;
      else if (token === "\n") this.#down(1);
      else if (token === "\b") this.#column = Math.max(0, this.#column - 1);
      else if (!token.startsWith(ESC) && token !== BEL) this.#put(token);
    }
  }

  /** What is to be read, without what is empty at its end. */
  lines(): string[] {
    const lines = this.rows.map((row) =>
      row
        .map(({ text }) => text)
        .join("")
        .trimEnd(),
    );
    return lines.slice(0, lines.findLastIndex((line) => line !== "") + 1);
  }

  #put(text: string): void {
    if (this.#column >= this.#columns) {
      this.#column = 0;
      this.#down(1);
    }
    const row = this.#here();
    while (row.length < this.#column) row.push(BLANK);
    row[this.#column] = { text, style: this.#style };
    this.#column += 1;
  }

  #here(): Cell[] {
    return this.rows[this.#row] ?? [];
  }

  #down(count: number): void {
    this.#row += count;
    while (this.rows.length <= this.#row) this.rows.push([]);
  }

  #control(values: string, action: string): void {
    const count = Number(values.split(";")[0] || 1);
    if (action === "m") this.#styled(values);
    else if (action === "A") this.#row = Math.max(0, this.#row - count);
    else if (action === "B") this.#down(count);
    else if (action === "C") this.#column += count;
    else if (action === "D") this.#column = Math.max(0, this.#column - count);
    else if (action === "G") this.#column = count - 1;
    else if (action === "K") this.#eraseLine(values);
    else if (action === "J") this.#eraseBelow();
    else if (action !== "h" && action !== "l") throw new Error(`this screen does not know CSI ${values}${action}`);
  }

  #styled(values: string): void {
    if (values === "" || values === "0") this.#style = "";
    else this.#style = this.#style === "" ? values : `${this.#style};${values}`;
  }

  #eraseLine(values: string): void {
    const row = this.#here();
    if (values === "2") row.length = 0;
    else row.length = Math.min(row.length, this.#column);
  }

  #eraseBelow(): void {
    this.#eraseLine("");
    this.rows.length = this.#row + 1;
  }
}
