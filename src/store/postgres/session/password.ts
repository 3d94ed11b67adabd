/**
 * Passwords from ~/.pgpass, or the file that PGPASSFILE names, as libpq reads it: `host:port:database:user:password`,
 * the first line that fits wins. A file that somebody else can read or has written is not used, and that is said.
 */

import { readFileSync, statSync, type Stats } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";

export type LibpqVariables = Readonly<Record<string, string | undefined>>;

export interface Who {
  host: string;
  port: number;
  database: string;
  user: string;
}

/** How often one is asked for is up to the caller: each time the file is looked at anew. */
export class PasswordFile {
  readonly #path: string;

  constructor(env: LibpqVariables) {
    this.#path = env["PGPASSFILE"] || join(env["HOME"] || homedir(), ".pgpass");
  }

  /** Null: it has none for this one, is not there, or can't be used. */
  find(who: Who): string | null {
    try {
      return this.problem() === null ? findPassword(readFileSync(this.#path, "utf8"), who) : null;
    } catch {
      return null;
    }
  }

  /** Why it is there and not used. */
  problem(): string | null {
    const stats = this.#stats();
    if (stats === null) return null;
    if (!stats.isFile()) return `${this.#path} is not used: it is not a plain file`;
    const us = process.getuid?.();
    if (us !== undefined && stats.uid !== us && stats.uid !== 0) {
      return `${this.#path} is not used: it belongs to another user; make it yours`;
    }
    if ((stats.mode & 0o077) === 0) return null;
    return `${this.#path} is not used: others can read it; chmod 600 ${this.#path}`;
  }

  #stats(): Stats | null {
    try {
      return statSync(this.#path);
    } catch {
      return null;
    }
  }
}

export function findPassword(text: string, who: Who): string | null {
  // A socket's folder counts as this machine.
  const host = who.host.startsWith("/") ? "localhost" : who.host;
  const wanted = [host, String(who.port), who.database, who.user];
  for (const line of text.split(/\r?\n/)) {
    if (line === "" || line.startsWith("#")) continue;
    const fields = split(line);
    if (wanted.every((value, index) => fields[index] === "*" || fields[index] === value)) return fields[4] ?? null;
  }
  return null;
}

/** Colons and backslashes inside a field are written with a backslash before them. */
function split(line: string): string[] {
  const fields: string[] = [];
  let field = "";
  for (let at = 0; at < line.length; at++) {
    if (line[at] === "\\" && at + 1 < line.length) field += line[++at];
    else if (line[at] !== ":" || fields.length === 4) field += line[at];
    else {
      fields.push(field);
      field = "";
    }
  }
  return [...fields, field];
}
