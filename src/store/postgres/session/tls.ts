/**
 * Encryption as libpq understands it. `verify-full` checks the chain and the name, `verify-ca` the chain; `require` does
 * so where there is a root certificate; `prefer` (and `allow`) take what they can get, and say once when that was
 * nothing. Root certificates are those of `sslrootcert`, else of ~/.postgresql/root.crt, else (where they must be
 * checked) of the system.
 */

import { readFileSync, statSync } from "node:fs";
import { isIP, type Socket } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { checkServerIdentity, connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { LeaseError, errorText } from "../../../core/errors.ts";
import type { LibpqVariables } from "./password.ts";

const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const;
type Mode = (typeof MODES)[number];

export interface Tls {
  mode: Mode;
  /** Somebody asked for this mode. */
  asked: boolean;
  /** The chain of certificates must end in one that is trusted. */
  verify: boolean;
  files: Pick<ConnectionOptions, "ca" | "cert" | "key">;
}

type Setting = (name: "sslmode" | "sslrootcert" | "sslcert" | "sslkey") => string | undefined;

/** The word that stands for the certificates that the system trusts. */
const SYSTEM = "system";

export function readTls(setting: Setting, env: LibpqVariables, refuse: (why: string) => never): Tls {
  const given = setting("sslmode");
  const root = setting("sslrootcert");
  const mode = MODES.find((known) => known === (given ?? (root === SYSTEM ? "verify-full" : "prefer")));
  if (mode === undefined) return refuse(`sslmode "${given}" is not one: there are ${MODES.join(", ")}`);
  if (mode === "disable") return { mode, asked: true, verify: false, files: {} };
  if (root === SYSTEM && mode !== "verify-full") {
    return refuse(
      `sslmode "${mode}" is too weak for sslrootcert=system, where anybody can have a certificate: use verify-full`,
    );
  }
  const read = (name: "sslrootcert" | "sslcert" | "sslkey", path: string) => {
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      return refuse(`${name} can't be read: ${errorText(error)}`);
    }
  };
  const files: Tls["files"] = {};
  if (root === undefined) {
    const usual = usualRoot(env);
    if (usual !== null) files.ca = usual;
  } else if (root !== SYSTEM) files.ca = read("sslrootcert", root);
  const [cert, key] = [setting("sslcert"), setting("sslkey")];
  if (cert !== undefined) files.cert = read("sslcert", cert);
  if (key !== undefined) {
    files.key = read("sslkey", key);
    if (!isPrivate(key)) refuse(`sslkey ${key} can be read by others: chmod 600 ${key}`);
  }
  const verify = mode.startsWith("verify-") || files.ca !== undefined;
  return { mode, asked: given !== undefined, verify, files };
}

function usualRoot(env: LibpqVariables): string | null {
  try {
    return readFileSync(join(env["HOME"] || homedir(), ".postgresql/root.crt"), "utf8");
  } catch {
    return null;
  }
}

/** A key of root's may be read by its group, as where a system hands out certificates. */
function isPrivate(path: string): boolean {
  const { uid, mode } = statSync(path);
  if (uid === 0 && process.getuid?.() !== 0) return (mode & 0o037) === 0;
  return (mode & 0o077) === 0;
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const [YES, NO] = [0x53, 0x4e];

/** The socket on which to go on; null: the server does not encrypt. An answer that can't be trusted is an error. */
export async function encrypt(raw: Socket, host: string, tls: Tls, location: string): Promise<Socket | null> {
  const answered = new Promise<Buffer>((resolve) => raw.once("data", resolve));
  raw.write(SSL_REQUEST);
  const answer = await untilClosed(raw, answered);
  // More than the one byte would be taken for what came encrypted: whoever sends that is in between.
  if (answer.length === 1 && answer[0] === NO) return null;
  if (answer.length !== 1 || answer[0] !== YES) throw untrusted(location, "answers to encryption with something else");
  const secured = connect({
    ...tls.files,
    socket: raw,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    rejectUnauthorized: tls.verify,
    checkServerIdentity: () => undefined,
    ALPNProtocols: [],
  });
  try {
    await untilClosed(secured, new Promise<void>((resolve) => secured.once("secureConnect", resolve)));
    if (tls.mode === "verify-full") checkName(secured, host);
  } catch (error) {
    secured.destroy();
    throw untrusted(location, `has no certificate that can be trusted (${errorText(error)}): ${ADVICE}`, error);
  }
  secured.removeAllListeners();
  return secured;
}

const ADVICE = "check the host's name, sslrootcert and sslmode";

function checkName(secured: TLSSocket, host: string): void {
  const problem = checkServerIdentity(host, secured.getPeerCertificate());
  if (problem !== undefined) throw problem;
}

function untrusted(location: string, what: string, cause?: unknown): LeaseError {
  return new LeaseError("store_untrusted", `store ${location} ${what}`, { cause });
}

/** Rejects when the socket fails or ends first. */
async function untilClosed<T>(socket: Socket, wanted: Promise<T>): Promise<T> {
  const lost = new Promise<never>((_, reject) => {
    socket.once("error", reject);
    socket.once("close", () => reject(Object.assign(new Error("the connection was lost"), { code: "ECONNRESET" })));
  });
  try {
    return await Promise.race([wanted, lost]);
  } finally {
    socket.removeAllListeners();
    // What it still has to say is said to nobody.
    socket.on("error", () => {});
    lost.catch(() => {});
  }
}
