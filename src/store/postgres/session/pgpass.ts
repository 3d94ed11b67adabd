/** Passwords from ~/.pgpass or PGPASSFILE, as libpq reads them: `host:port:database:user:password`, the first match wins. */

import { readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

export interface Who {
  host: string;
  port: number;
  database: string;
  user: string;
}

export function passwordFromFile(env: Readonly<Record<string, string | undefined>>, who: Who): string | null {
  const path = env["PGPASSFILE"] || join(env["HOME"] || homedir(), ".pgpass");
  let text: string;
  try {
    // One that others can read is ignored, as libpq does: who can read it could have written it.
    if ((statSync(path).mode & 0o077) !== 0) return null;
    text = readFileSync(path, "utf8");
  } catch {
    return null;
  }
  return findPassword(text, who);
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
