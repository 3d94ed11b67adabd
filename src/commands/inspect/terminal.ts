/**
 * The terminal while a view is live: a screen of its own, its size, the keys that end it. Whatever happens, `close`
 * gives back the terminal as it was.
 */

import process from "node:process";
import { ENTER, LEAVE, type Size } from "../../view/frame.ts";
import { onSignals, signalCode, type ExitRequest } from "../../cli/signals.ts";

const CTRL_C = "\u0003";
const CTRL_Z = "\u001a";
const ESCAPE = "\u001b";
const USUAL: Size = { columns: 80, rows: 24 };

export class LiveTerminal {
  readonly #write: (text: string) => void;
  readonly #exit: ExitRequest;
  readonly #redraw: () => void;
  /** Keys come one by one only where there is somebody to press them. */
  readonly #keys = process.stdin.isTTY;
  #ours = false;
  #release = () => {};

  constructor(write: (text: string) => void, exit: ExitRequest, redraw: () => void) {
    this.#write = write;
    this.#exit = exit;
    this.#redraw = redraw;
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
    return columns > 0 && rows > 0 ? { columns, rows } : USUAL;
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
    const keys = new TextDecoder().decode(bytes);
    // An arrow key begins with an escape as well; the key itself comes alone.
    if (keys === ESCAPE || /q/i.test(keys)) this.#exit.end(0);
    else if (keys.includes(CTRL_C)) this.#exit.end(signalCode("SIGINT"));
    else if (keys.includes(CTRL_Z)) {
      this.#leave();
      process.kill(process.pid, "SIGTSTP");
    }
  };
}
