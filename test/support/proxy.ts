/**
 * A stretch of network between a client and a server that does what networks do: it carries, it falls silent without
 * a word, it loses the answers, it is cut, it is slow.
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
  /** To the server. */
  #slow: SlowLine | null = null;

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

  /** All connections together bring no more to the server; what is too much waits in line, whoever sent it. */
  throttle(bytes_per_s: number): void {
    this.#slow = new SlowLine(bytes_per_s);
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
    this.#slow?.close();
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
      if (pair.silent) return;
      if (this.#slow === null) server.write(bytes);
      else this.#slow.carry(bytes, client, server);
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

/** How a session is set up for the statement that follows. */
const SETTING = "SET plan_cache_mode";

/** Whether a message of PostgreSQL's protocol among these runs a statement; the others only prepare one. */
function carriesOut(bytes: Buffer): boolean {
  for (let at = 0; at + 5 <= bytes.length; at += 1 + bytes.readUInt32BE(at + 1)) {
    if (bytes[at] === "E".charCodeAt(0)) return true;
    if (
      bytes[at] === "Q".charCodeAt(0) &&
      !bytes
        .subarray(at + 5)
        .toString("latin1")
        .startsWith(SETTING)
    )
      return true;
  }
  return false;
}

const PACKET_BYTES = 1_400;
/** What a router keeps before whoever sends more is made to wait. */
const LINE_BYTES = 16_384;

interface Packet {
  bytes: Buffer;
  to: Socket;
}

class SlowLine {
  readonly #line: Packet[] = [];
  readonly #held = new Set<Socket>();
  readonly #timer: ReturnType<typeof setInterval>;
  #waiting_bytes = 0;

  constructor(bytes_per_s: number) {
    this.#timer = setInterval(() => this.#bring(), (1_000 * PACKET_BYTES) / bytes_per_s);
  }

  carry(bytes: Buffer, from: Socket, to: Socket): void {
    for (let at = 0; at < bytes.length; at += PACKET_BYTES) {
      this.#line.push({ bytes: bytes.subarray(at, at + PACKET_BYTES), to });
    }
    this.#waiting_bytes += bytes.length;
    if (this.#waiting_bytes < LINE_BYTES) return;
    this.#held.add(from);
    from.pause();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #bring(): void {
    const packet = this.#line.shift();
    if (packet === undefined) return;
    packet.to.write(packet.bytes);
    this.#waiting_bytes -= packet.bytes.length;
    if (this.#waiting_bytes >= LINE_BYTES) return;
    for (const socket of this.#held) socket.resume();
    this.#held.clear();
  }
}
