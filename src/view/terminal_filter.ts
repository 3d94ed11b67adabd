/**
 * What a job printed, as it may reach a terminal: text, line ends, tabs and colours as they are, every other control
 * character as an escape that is seen and not obeyed. A log may be anybody's, and a terminal does what it is told: change
 * its title, answer as if somebody had typed, hide lines. Works on bytes as they come, cut anywhere.
 */

const COLOUR = String.raw`\x1b\[[0-9;:]{0,64}m`;
/** One character in UTF-8; of two bytes those that are control characters are left out. */
const LETTER = String.raw`[\x20-\x7e]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}`;
const HARMLESS = new RegExp(`(?:[\\t\\n\\r]|${COLOUR}|${LETTER})+`, "g");
/** What may become harmless with what comes next. */
// oxlint-disable-next-line no-control-regex
const BEGUN = /(?:\x1b(?:\[[0-9;:]{0,64})?|\xc2|[\xc3-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})$/;

export class TerminalFilter {
  #begun = "";

  /** What can be shown by now. */
  push(bytes: Uint8Array): Uint8Array {
    const text = this.#begun + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
    this.#begun = BEGUN.exec(text)?.[0] ?? "";
    return shown(text.slice(0, text.length - this.#begun.length));
  }

  /** The rest. */
  end(): Uint8Array {
    const rest = this.#begun;
    this.#begun = "";
    return shown(rest);
  }
}

function shown(text: string): Uint8Array {
  let safe = "";
  let at = 0;
  for (const match of text.matchAll(HARMLESS)) {
    safe += escaped(text.slice(at, match.index)) + match[0];
    at = match.index + match[0].length;
  }
  return Buffer.from(safe + escaped(text.slice(at)), "latin1");
}

function escaped(text: string): string {
  return text.replaceAll(/[^]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}
