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

export interface Who {
  host: string;
  port: number;
  database: string;
  user: string;
}

export interface Target extends Who {
  password: string;
  ssl: false | "prefer" | "require" | ConnectionOptions;
  schema: string;
  application_name: string;
  connect_timeout_ms: number;
  /** Safe to print. */
  location: string;
}

/** What the URL can say, and the variables that say it where that does not. */
const PARAMETERS = {
  schema: null,
  host: "PGHOST",
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  connect_timeout: "PGCONNECT_TIMEOUT",
  application_name: "PGAPPNAME",
} as const;

type Setting = (name: Exclude<keyof typeof PARAMETERS, "schema">) => string | undefined;
const DEFAULT_SCHEMA = "lease";
const DEFAULT_PORT = 5432;
const DEFAULT_CONNECT_TIMEOUT = "10s";

/** PostgreSQL cuts longer names off, and two stores would become one. */
const NAME_LIMIT = 63;

export function parseTarget(text: string, env: Env): Target {
  const url = parse(text);
  const given = parameters(url);
  const setting: Setting = (name) => nonEmpty(given.get(name)) ?? nonEmpty(env[PARAMETERS[name]]);
  const named = url.hostname === NO_HOST ? "" : decode(url.hostname.replace(/^\[|\]$/g, ""));
  const host = named || (setting("host") ?? "localhost");
  const port = Number(url.port || nonEmpty(env["PGPORT"]) || DEFAULT_PORT);
  const user = decode(url.username) || (nonEmpty(env["PGUSER"]) ?? userInfo().username);
  const database = decode(url.pathname.slice(1)) || (nonEmpty(env["PGDATABASE"]) ?? user);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) refuse(`port ${port} is not one: use 1 to 65535`);
  const schema = schemaOf(given.get("schema"));
  const who = { host, port, database, user };
  return {
    ...who,
    password: decode(url.password) || (nonEmpty(env["PGPASSWORD"]) ?? passwordFromFile(env, who) ?? ""),
    ssl: sslOf(setting, host),
    schema,
    application_name: setting("application_name") ?? "lease",
    connect_timeout_ms: timeoutOf(setting("connect_timeout")),
    location: printable(who, schema),
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
    if (!Object.hasOwn(PARAMETERS, name)) {
      refuse(`it has an unknown parameter "${name}": there are ${Object.keys(PARAMETERS).join(", ")}`);
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

const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/** As libpq understands the modes: only the last two check who answers. */
function sslOf(setting: Setting, host: string): Target["ssl"] {
  const mode = setting("sslmode") ?? "prefer";
  if (!SSL_MODES.includes(mode)) refuse(`sslmode "${mode}" is not one: there are ${SSL_MODES.join(", ")}`);
  if (mode === "disable" || host.startsWith("/")) return false;
  const pem = (field: string, name: "sslrootcert" | "sslcert" | "sslkey") => {
    const path = setting(name);
    return path === undefined || (field === "ca" && path === "system") ? {} : { [field]: readPem(path, name) };
  };
  const own: ConnectionOptions = { ...pem("ca", "sslrootcert"), ...pem("cert", "sslcert"), ...pem("key", "sslkey") };
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

function printable({ host, port, database, user }: Who, schema: string): string {
  const local = host.startsWith("/");
  const at = local ? "" : `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const query = [
    ...(local ? [`host=${host}`] : []),
    ...(schema === DEFAULT_SCHEMA ? [] : [`schema=${encodeURIComponent(schema)}`]),
  ];
  const where = `postgres://${encodeURIComponent(user)}@${at}/${encodeURIComponent(database)}`;
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

/** From ~/.pgpass or PGPASSFILE, as libpq reads them: `host:port:database:user:password`, the first match wins. */
function passwordFromFile(env: Env, who: Who): string | null {
  const path = env["PGPASSFILE"] || join(env["HOME"] || homedir(), ".pgpass");
  try {
    // One that others can read is ignored, as libpq does: who can read it could have written it.
    return (statSync(path).mode & 0o077) === 0 ? findPassword(readFileSync(path, "utf8"), who) : null;
  } catch {
    return null;
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
