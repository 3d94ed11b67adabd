/**
 * postgres://user:password@host:port/database?schema=lease&sslmode=require → where to connect and how.
 *
 * What the URL leaves out comes from the variables that every PostgreSQL program knows (PGHOST, PGPORT, PGUSER,
 * PGPASSWORD, PGDATABASE, PGSSLMODE …) and from ~/.pgpass. The password appears in nothing that is printed.
 */

import { readFileSync, statSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join } from "node:path";
import type { ConnectionOptions } from "node:tls";
import { parseDuration } from "../../../core/duration.ts";
import { LeaseError, errorText } from "../../../core/errors.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface Target {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  ssl: false | "prefer" | "require" | ConnectionOptions;
  schema: string;
  application_name: string;
  connect_timeout_ms: number;
  /** Safe to print. */
  location: string;
}

const PARAMETERS = [
  "schema",
  "host",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "connect_timeout",
  "application_name",
] as const;

type Parameter = (typeof PARAMETERS)[number];
const DEFAULT_SCHEMA = "lease";
const DEFAULT_PORT = 5432;
const DEFAULT_CONNECT_TIMEOUT = "10s";

/** PostgreSQL cuts longer names off, and two stores would become one. */
const NAME_LIMIT = 63;

export function parseTarget(text: string, env: Env): Target {
  const url = parse(text);
  const given = parameters(url);
  const setting = (name: Parameter, variable: string) => nonEmpty(given.get(name)) ?? nonEmpty(env[variable]);
  const named = url.hostname === NO_HOST ? "" : decode(url.hostname.replace(/^\[|\]$/g, ""));
  const host = named || (setting("host", "PGHOST") ?? "localhost");
  const port = Number(url.port || nonEmpty(env["PGPORT"]) || DEFAULT_PORT);
  const user = decode(url.username) || (nonEmpty(env["PGUSER"]) ?? userInfo().username);
  const database = decode(url.pathname.slice(1)) || (nonEmpty(env["PGDATABASE"]) ?? user);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) refuse(`port ${port} is not one: use 1 to 65535`);
  const schema = schemaOf(given.get("schema"));
  return {
    host,
    port,
    database,
    user,
    password: passwordOf(url, env, { host, port, database, user }),
    ssl: sslOf(setting, host),
    schema,
    application_name: setting("application_name", "PGAPPNAME") ?? "lease",
    connect_timeout_ms: timeoutOf(setting("connect_timeout", "PGCONNECT_TIMEOUT")),
    location: printable({ host, port, database, user, schema }),
  };
}

/** Stands for a host that a URL with a user leaves out, which only PostgreSQL allows. */
const NO_HOST = "no-host.invalid";

function parse(text: string): URL {
  try {
    return new URL(text.replace(/^([a-z]+:\/\/[^/?#]*@)(?=[/?#]|$)/i, `$1${NO_HOST}`));
  } catch {
    // The text itself may hold a password.
    return refuse("it is not one: write postgres://user@host:5432/database");
  }
}

function parameters(url: URL): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    if (!(PARAMETERS as readonly string[]).includes(name)) {
      refuse(`it has an unknown parameter "${name}": there are ${PARAMETERS.join(", ")}`);
    }
    found.set(name, value);
  }
  return found;
}

function schemaOf(given: string | undefined): string {
  const schema = given ?? DEFAULT_SCHEMA;
  if (schema === "" || schema.length > NAME_LIMIT || !/^[\p{L}_][\p{L}\p{N}_$-]*$/u.test(schema)) {
    refuse(`schema "${schema}" is not a name: begin with a letter, then letters, digits, _, - or $, at most 63`);
  }
  if (/^pg_/i.test(schema)) refuse(`schema "${schema}" is PostgreSQL's own: names with pg_ are reserved`);
  return schema;
}

function passwordOf(url: URL, env: Env, who: { host: string; port: number; database: string; user: string }): string {
  return decode(url.password) || (nonEmpty(env["PGPASSWORD"]) ?? passwordFromFile(env, who) ?? "");
}

const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/** As libpq understands the modes: only the last two check who answers. */
function sslOf(setting: (name: Parameter, variable: string) => string | undefined, host: string): Target["ssl"] {
  const mode = setting("sslmode", "PGSSLMODE") ?? "prefer";
  if (!SSL_MODES.includes(mode)) refuse(`sslmode "${mode}" is not one: there are ${SSL_MODES.join(", ")}`);
  if (mode === "disable" || host.startsWith("/")) return false;
  const root = setting("sslrootcert", "PGSSLROOTCERT");
  const [cert, key] = [setting("sslcert", "PGSSLCERT"), setting("sslkey", "PGSSLKEY")];
  const own = {
    ...(root === undefined || root === "system" ? {} : { ca: readPem(root, "sslrootcert") }),
    ...(cert === undefined ? {} : { cert: readPem(cert, "sslcert") }),
    ...(key === undefined ? {} : { key: readPem(key, "sslkey") }),
  };
  if (mode === "verify-full") return own;
  if (mode === "verify-ca") return { ...own, checkServerIdentity: () => undefined };
  if (mode === "require") return Object.keys(own).length === 0 ? "require" : { ...own, rejectUnauthorized: false };
  return "prefer";
}

function readPem(path: string, name: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    return refuse(`${name} can't be read: ${errorText(error)}`);
  }
}

/** Bare numbers are seconds, as everywhere in PostgreSQL. */
function timeoutOf(given: string | undefined): number {
  const text = given ?? DEFAULT_CONNECT_TIMEOUT;
  return parseDuration(/^\d+$/.test(text) ? `${text}s` : text, "connect_timeout");
}

function printable(at: { host: string; port: number; database: string; user: string; schema: string }): string {
  const local = at.host.startsWith("/");
  const host = local ? "" : `${at.host.includes(":") ? `[${at.host}]` : at.host}:${at.port}`;
  const query = [
    ...(local ? [`host=${at.host}`] : []),
    ...(at.schema === DEFAULT_SCHEMA ? [] : [`schema=${encodeURIComponent(at.schema)}`]),
  ];
  const where = `postgres://${encodeURIComponent(at.user)}@${host}/${encodeURIComponent(at.database)}`;
  return query.length === 0 ? where : `${where}?${query.join("&")}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return refuse("it has a % that is not followed by two hexadecimal digits: write %25 for a %");
  }
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}

function refuse(why: string): never {
  throw new LeaseError("usage", `the store's URL can't be used: ${why}`);
}

export interface Who {
  host: string;
  port: number;
  database: string;
  user: string;
}

/** From ~/.pgpass or PGPASSFILE, as libpq reads them: `host:port:database:user:password`, the first match wins. */
function passwordFromFile(env: Readonly<Record<string, string | undefined>>, who: Who): string | null {
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
