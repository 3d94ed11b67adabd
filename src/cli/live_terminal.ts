/**
 * The terminal while a view is live: a screen of its own, its size, its keys. Whatever happens, `close` gives back the
 * terminal as it was.
 */

import process from "node:process";
import { ENTER, LEAVE, USUAL_SIZE, type Size } from "../view/text.ts";
import { onSignals, signalCode, type ExitRequest } from "./signals.ts";

const CTRL_C = "\u0003";
const CTRL_Z = "\u001a";
const ESCAPE = "\u001b";
/** Several may come at once. An arrow begins with an escape as well; the key itself comes alone. */
const KEYS = new RegExp(`${ESCAPE}\\[[\\d;]*[A-Za-z~]|[^]`, "gu");

export class LiveTerminal {
  readonly #write: (text: string) => void;
  readonly #exit: ExitRequest;
  readonly #redraw: () => void;
  readonly #onKey: (key: string) => boolean;
  /** Keys come one by one only where there is somebody to press them. */
  readonly #keys = process.stdin.isTTY;
  #ours = false;
  #release = () => {};

  /** `onKey` is asked first; true: it has taken the key. */
  constructor(
    write: (text: string) => void,
    exit: ExitRequest,
    redraw: () => void,
    onKey: (key: string) => boolean = () => false,
  ) {
    this.#write = write;
    this.#exit = exit;
    this.#redraw = redraw;
    this.#onKey = onKey;
  }

  open(): void {
    this.#enter();
    process.stdout.on("resize", this.#redraw);
    this.#release = onSignals(["SIGCONT"], this.#enter);
    if (this.#keys) process.stdin.on("data", this.#pressed).resume();
  }

  close(): void {
    process.stdout.off("resize", this.#redraw);
    this.#release();
    process.stdin.off("data", this.#pressed).pause();
    try {
      this.#leave();
    } catch {
      // It is gone: there is nothing left to give back.
    }
  }

  /** Draws, unless the terminal is somebody else's: between Ctrl-Z and `fg` it is the shell's. */
  draw(frame: string): void {
    if (this.#ours) this.#write(frame);
  }

  get size(): Size {
    const [columns, rows] = process.stdout.getWindowSize();
    return columns > 0 && rows > 0 ? { columns, rows } : USUAL_SIZE;
  }

  readonly #enter = (): void => {
    if (this.#keys) process.stdin.setRawMode(true);
    this.#write(ENTER);
    this.#ours = true;
    this.#redraw();
  };

  #leave(): void {
    this.#ours = false;
    if (this.#keys) process.stdin.setRawMode(false);
    this.#write(LEAVE);
  }

  readonly #pressed = (bytes: Uint8Array): void => {
    for (const [key] of new TextDecoder().decode(bytes).matchAll(KEYS)) this.#press(key);
  };

  #press(key: string): void {
    if (key === CTRL_C) this.#exit.end(signalCode("SIGINT"));
    else if (this.#onKey(key)) this.#redraw();
    else if (key === ESCAPE || /^q$/i.test(key)) this.#exit.end(0);
    else if (key === CTRL_Z) {
      this.#leave();
      process.kill(process.pid, "SIGTSTP");
    }
  }
}
