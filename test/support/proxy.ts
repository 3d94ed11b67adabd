/**
 * A stretch of network between a client and a server that does what networks do: it carries, it falls silent without
 * a word, it loses the answers, it is cut.
 */

import { connect, createServer, type Server, type Socket } from "node:net";

interface Pair {
  client: Socket;
  server: Socket;
  silent: boolean;
  deaf: boolean;
}

export class Proxy {
  readonly port: number;
  readonly #listener: Server;
  readonly #pairs = new Set<Pair>();
  /** New connections are silent too. */
  #silent = false;
  #fatal: ((bytes: Buffer) => boolean) | null = null;

  private constructor(listener: Server, port: number) {
    this.#listener = listener;
    this.port = port;
  }

  static async before(port: number, host = "127.0.0.1"): Promise<Proxy> {
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const proxy = new Proxy(listener, (listener.address() as { port: number }).port);
    listener.on("connection", (client) => proxy.#carry(client, connect(port, host)));
    return proxy;
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Nothing goes through any more, either way, and nobody is told: what a dead switch or a lost route looks like. */
  fallSilent(): void {
    this.#silent = true;
    for (const pair of this.#pairs) pair.silent = true;
  }

  /** New connections work; the silent ones stay silent. */
  recover(): void {
    this.#silent = false;
  }

  /** From the next statement on that is carried out, or the next that holds this text, answers don't come back. */
  loseAnswers(text?: string): void {
    this.#fatal = (bytes) => (text === undefined ? carriesOut(bytes) : bytes.includes(text));
  }

  /** Ends every connection at once. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    this.#pairs.clear();
  }

  close(): void {
    this.cut();
    this.#listener.close();
  }

  #carry(client: Socket, server: Socket): void {
    const pair: Pair = { client, server, silent: this.#silent, deaf: false };
    this.#pairs.add(pair);
    client.on("data", (bytes: Buffer) => {
      if (this.#fatal?.(bytes) === true) {
        pair.deaf = true;
        this.#fatal = null;
      }
      if (!pair.silent) server.write(bytes);
    });
    server.on("data", (bytes) => pair.silent || pair.deaf || client.write(bytes));
    const end = () => {
      if (pair.silent || !this.#pairs.delete(pair)) return;
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on("close", end).on("error", end);
  }
}

/** Whether a message of PostgreSQL's protocol among these runs a statement; the others only prepare one. */
function carriesOut(bytes: Buffer): boolean {
  for (let at = 0; at + 5 <= bytes.length; at += 1 + bytes.readUInt32BE(at + 1)) {
    if (bytes[at] === "E".charCodeAt(0) || bytes[at] === "Q".charCodeAt(0)) return true;
  }
  return false;
}
