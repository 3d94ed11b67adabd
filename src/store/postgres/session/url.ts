/**
 * postgres://user:password@host:port,host:port/database?schema=lease&sslmode=require → where to connect and how.
 *
 * What the URL leaves out comes from the variables that every PostgreSQL program knows (PGHOST, PGPORT, PGUSER,
 * PGPASSWORD, PGDATABASE, PGSSLMODE …) and from ~/.pgpass. The password appears in nothing that is printed.
 */

import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import process from "node:process";
import { parseDuration } from "../../../core/duration.ts";
import { LeaseError } from "../../../core/errors.ts";
import { PasswordFile, type LibpqVariables } from "./password.ts";
import { readTls, type Tls } from "./tls.ts";

export interface Host {
  /** A name, an address, or the folder of a socket. */
  host: string;
  port: number;
  password: string;
}

export interface Target {
  /** In the order in which they are tried; at least one. */
  hosts: readonly Host[];
  /** Only a host that takes writes will do. */
  writable: boolean;
  database: string;
  user: string;
  tls: Tls;
  schema: string;
  /** Whose schema it may be, beside our own; null: nobody's. */
  owner: string | null;
  application_name: string;
  connect_timeout_ms: number;
  /** Safe to print. */
  location: string;
  /** What whoever gave it should know. */
  remarks: readonly string[];
}

/** What the URL can say, and the variables that say it where that does not. */
const PARAMETERS = {
  schema: null,
  owner: null,
  host: "PGHOST",
  port: "PGPORT",
  target_session_attrs: "PGTARGETSESSIONATTRS",
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  connect_timeout: "PGCONNECT_TIMEOUT",
  application_name: "PGAPPNAME",
} as const;

const DEFAULT_SCHEMA = "lease";
const DEFAULT_PORT = "5432";
const DEFAULT_CONNECT_TIMEOUT = "10s";
/** With others to turn to, one that gives no answer is given up earlier. */
const ONE_OF_SEVERAL_TIMEOUT = "3s";

/** PostgreSQL cuts longer names off, and two stores would become one. */
const NAME_LIMIT = 63;

export function parseTarget(text: string, env: LibpqVariables): Target {
  const { url, authority } = parse(text);
  const given = parameters(url);
  const setting = (name: keyof typeof PARAMETERS) => {
    const variable = PARAMETERS[name];
    return nonEmpty(given.get(name)) ?? (variable === null ? undefined : nonEmpty(env[variable]));
  };
  const places = placesOf(authority, setting("host"), setting("port"));
  const several = places.length > 1;
  const user = decode(url.username) || (nonEmpty(env["PGUSER"]) ?? ownName(env));
  const database = decode(url.pathname.slice(1)) || (nonEmpty(env["PGDATABASE"]) ?? user);
  const schema = nameOf("schema", given.get("schema") ?? DEFAULT_SCHEMA);
  const said = decode(url.password) || nonEmpty(env["PGPASSWORD"]);
  const file = new PasswordFile(env);
  const problem = said === undefined ? file.problem() : null;
  const find = (place: Place) => said ?? file.find({ ...place, database, user }) ?? "";
  return {
    hosts: places.map((place) => ({ ...place, password: find(place) })),
    writable: isWritable(setting("target_session_attrs"), several),
    database,
    user,
    tls: readTls(setting, env, refuse),
    schema,
    owner: given.has("owner") ? nameOf("owner", given.get("owner") ?? "") : null,
    application_name: setting("application_name") ?? "lease",
    connect_timeout_ms: timeoutOf(
      setting("connect_timeout") ?? (several ? ONE_OF_SEVERAL_TIMEOUT : DEFAULT_CONNECT_TIMEOUT),
    ),
    location: printable(places, { user, database, schema }),
    remarks: problem === null ? [] : [problem],
  };
}

/** By our uid, as libpq has it: the runtime asks the environment alone, and a service or cron may say nothing there. */
function ownName(env: LibpqVariables): string {
  return nonEmpty(listedName()) ?? nonEmpty(env["USER"]) ?? nonEmpty(env["LOGNAME"]) ?? userInfo().username;
}

function listedName(): string | undefined {
  try {
    const uid = String(process.geteuid?.());
    const users = readFileSync("/etc/passwd", "utf8").split("\n");
    return users.map((line) => line.split(":")).find(([, , of]) => of === uid)?.[0];
  } catch {
    // It may not be read, or we may not know who we are.
    return undefined;
  }
}

/** The URL for jobs: without its password, where that can be had from what they have anyway, ~/.pgpass above all. */
export function urlForJobs(text: string, env: LibpqVariables): string {
  const password = passwordIn(text);
  if (password === "") return text;
  const bare = text.replace(`:${password}@`, "@");
  const passwords = (url: string) => parseTarget(url, env).hosts.map((host) => host.password);
  const [given, found] = [passwords(text), passwords(bare)];
  return given.every((each, index) => each === found[index]) ? bare : text;
}

/** As it is written there; empty: there is none. */
export function passwordIn(text: string): string {
  return /^[a-z]+:\/\/[^:/?#]*:([^/?#]*)@/i.exec(text)?.[1] ?? "";
}

/** Stands for the hosts: there may be several or none, which only PostgreSQL allows. */
const SOME_HOST = "host.invalid";

function parse(text: string): { url: URL; authority: string } {
  const [, scheme = "", authority = "", rest = ""] = /^([a-z]+:\/\/)([^/?#]*)(.*)$/is.exec(text) ?? [];
  const at = authority.lastIndexOf("@") + 1;
  try {
    const url = new URL(`${scheme}${authority.slice(0, at)}${SOME_HOST}${rest}`);
    return { url, authority: authority.slice(at) };
  } catch {
    return refuse(NOT_ONE);
  }
}

/** The text itself may hold a password, and is not repeated. */
const NOT_ONE = "it is not one: write postgres://user@host:5432/database";

type Place = Pick<Host, "host" | "port">;

/** Hosts by commas, each with its port or that of all. */
function placesOf(authority: string, hosts: string | undefined, ports: string | undefined): Place[] {
  const named = authority === "" ? [] : authority.split(",").map(splitPlace);
  const usual = hosts?.split(",").map((host) => ({ host, port: "" })) ?? [];
  const found = named.every(({ host }) => host === "") ? [...usual] : named;
  if (found.length === 0) found.push({ host: "", port: named[0]?.port ?? "" });
  const given = ports?.split(",") ?? [];
  if (given.length > 1 && given.length !== found.length)
    refuse(`it has ${found.length} hosts and ${given.length} ports`);
  return found.map(({ host, port }, index) => ({
    host: host || "localhost",
    port: portOf(port || (given[given.length === 1 ? 0 : index] ?? "") || DEFAULT_PORT),
  }));
}

function splitPlace(text: string): { host: string; port: string } {
  const match = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d*))?$/.exec(text);
  if (match === null) return refuse(NOT_ONE);
  return { host: decode(match[1] ?? match[2] ?? ""), port: match[3] ?? "" };
}

function portOf(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(port >= 1 && port <= 65_535)) refuse(`port ${text} is not one: use 1 to 65535`);
  return port;
}

const ATTRIBUTES = ["any", "read-write", "primary"];

/** A store is there to be written: of several hosts the one that takes writes is meant, unless somebody says `any`. */
function isWritable(given: string | undefined, several: boolean): boolean {
  if (given === undefined) return several;
  if (ATTRIBUTES.includes(given)) return given !== "any";
  return refuse(`target_session_attrs "${given}" is none that a store can have: there are ${ATTRIBUTES.join(", ")}`);
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

function nameOf(what: string, name: string): string {
  if (name === "" || name.length > NAME_LIMIT || !/^[\p{L}_][\p{L}\p{N}_$-]*$/u.test(name)) {
    refuse(`${what} "${name}" is not a name: begin with a letter, then letters, digits, _, - or $, at most 63`);
  }
  if (/^pg_/i.test(name)) refuse(`${what} "${name}" is PostgreSQL's own: names with pg_ are reserved`);
  return name;
}

/** Bare numbers are seconds, as everywhere in PostgreSQL. */
function timeoutOf(text: string): number {
  return parseDuration(/^\d+$/.test(text) ? `${text}s` : text, "connect_timeout");
}

type Names = Pick<Target, "user" | "database" | "schema">;

function printable(places: readonly Place[], { user, database, schema }: Names): string {
  const local = places.every(({ host }) => host.startsWith("/"));
  const names = places.map(({ host, port }) => {
    const name = host.startsWith("/") ? encodeURIComponent(host) : host;
    return `${name.includes(":") ? `[${name}]` : name}:${port}`;
  });
  const query = [
    ...(local ? [`host=${places.map(({ host }) => host).join(",")}`] : []),
    ...(schema === DEFAULT_SCHEMA ? [] : [`schema=${encodeURIComponent(schema)}`]),
  ];
  const where = `postgres://${encodeURIComponent(user)}@${local ? "" : names.join(",")}/${encodeURIComponent(database)}`;
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
