/**
 * The hosts of a store, and the way to the one that is used. A connection begins with the host that was good last, and
 * goes on to the next when that can't be reached; one that turns out to take no writes is left for the next.
 */

import { Socket, isIP } from "node:net";
import { encrypt } from "./tls.ts";
import type { Host, Target } from "./url.ts";

export function lost(code: string): Error {
  return Object.assign(new Error("the connection was lost"), { code });
}

export interface Way {
  host: Host;
  socket: Socket;
}

export class Hosts {
  readonly #target: Target;
  readonly #notice: (text: string) => void;
  #current = 0;
  #told = false;

  constructor(target: Target, notice: (text: string) => void) {
    this.#target = target;
    this.#notice = notice;
  }

  /** The first that answers. Each socket is handed to `begun` at once, so that waiting for it can be given up. */
  async connect(begun: (socket: Socket) => boolean): Promise<Way> {
    const { hosts } = this.#target;
    const first = this.#current;
    let failure: unknown = lost("ECONNRESET");
    for (let step = 0; step < hosts.length; step++) {
      const index = (first + step) % hosts.length;
      const host = hosts[index] as Host;
      try {
        const socket = await this.#open(host, begun);
        this.#current = index;
        return { host, socket };
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** That one takes no writes, or has let us down: the next is another. */
  leave(host: Host): void {
    const { hosts } = this.#target;
    if (hosts[this.#current] === host) this.#current = (this.#current + 1) % hosts.length;
  }

  async #open({ host, port }: Host, begun: (socket: Socket) => boolean): Promise<Socket> {
    const { tls, location, connect_timeout_ms: limit_ms } = this.#target;
    const open = () => within(limit_ms, begun, (socket) => connected(socket, host, port));
    if (tls.mode === "disable" || host.startsWith("/")) return open();
    const raw = await open();
    const lax = tls.mode === "prefer" || tls.mode === "allow";
    try {
      const secured = await within(limit_ms, begun, () => encrypt(raw, host, tls, location), raw);
      if (secured !== null) return secured;
    } catch (error) {
      raw.destroy();
      if (!lax) throw error;
      this.#tellPlain(host);
      return open();
    }
    if (!lax) {
      raw.destroy();
      throw lost("NO_TLS");
    }
    this.#tellPlain(host);
    return raw;
  }

  /** Once, and of what stays inside this machine only if somebody asked. */
  #tellPlain(host: string): void {
    const { tls, location } = this.#target;
    if (this.#told || (!tls.asked && isLoopback(host))) return;
    this.#told = true;
    const advice = "sslmode=require insists on encryption, sslmode=disable does without it";
    this.#notice(
      `the connection to ${location} is not encrypted, as the server at ${host} does not offer it: ${advice}`,
    );
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Gives up after a while, or when `begun` says that nobody waits any more. */
async function within<T>(
  limit_ms: number,
  begun: (socket: Socket) => boolean,
  work: (socket: Socket) => Promise<T>,
  socket = new Socket(),
): Promise<T> {
  if (!begun(socket)) throw lost("ECONNRESET");
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(lost("CONNECT_TIMEOUT")), limit_ms);
  });
  try {
    return await Promise.race([work(socket), late]);
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function connected(socket: Socket, host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const done = (failure: Error | null) => {
      socket.removeAllListeners();
      // One that failed may have more to say, to nobody.
      socket.on("error", () => {});
      if (failure === null) resolve(socket);
      else reject(failure);
    };
    socket.once("connect", () => done(null));
    socket.once("error", done);
    socket.once("close", () => done(lost("ECONNRESET")));
    socket.setNoDelay(true);
    if (host.startsWith("/")) socket.connect(`${host}/.s.PGSQL.${port}`);
    else socket.connect(port, host);
  });
}
