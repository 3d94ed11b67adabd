/** A command line → its words, as a shell would split it, with nothing expanded. The reverse of how commands are shown. */

const ESCAPED: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", a: "\u0007", e: "\u001b", "0": "\0" };

/** Null: a quote is not closed. */
export function shellWords(line: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let at = 0;
  const end = () => {
    if (word !== null) words.push(word);
    word = null;
  };
  while (at < line.length) {
    const character = line.charAt(at);
    if (/\s/.test(character)) {
      end();
      at += 1;
      continue;
    }
    const part: { text: string; length: number } | null = partAt(line, at);
    if (part === null) return null;
    word = (word ?? "") + part.text;
    at += part.length;
  }
  end();
  return words;
}

/** A quoted part, an escaped character, or a plain one. */
function partAt(line: string, at: number): { text: string; length: number } | null {
  const rest = line.slice(at);
  if (rest.startsWith("'")) return quoted(rest, /^'([^']*)'/, (text) => text);
  if (rest.startsWith("$'")) return quoted(rest, /^\$'((?:\\[^]|[^'\\])*)'/, unescaped);
  if (rest.startsWith('"')) {
    return quoted(rest, /^"((?:\\[^]|[^"\\])*)"/, (text) => text.replaceAll(/\\(["\\$`])/g, "$1"));
  }
  if (rest.startsWith("\\")) return rest.length < 2 ? null : { text: rest.charAt(1), length: 2 };
  return { text: rest.charAt(0), length: 1 };
}

function quoted(rest: string, pattern: RegExp, read: (text: string) => string) {
  const match = pattern.exec(rest);
  return match === null ? null : { text: read(match[1] ?? ""), length: match[0].length };
}

function unescaped(text: string): string {
  const pattern = /\\(?:x([\da-fA-F]{1,2})|u\{?([\da-fA-F]{1,6})\}?|([^]))/g;
  return text.replaceAll(pattern, (_all, byte?: string, code?: string, character?: string) => {
    const number = byte ?? code;
    return number === undefined
      ? (ESCAPED[character ?? ""] ?? character ?? "")
      : String.fromCodePoint(parseInt(number, 16));
  });
}
