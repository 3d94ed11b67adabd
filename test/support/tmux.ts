/** A real terminal that can be looked at: a shell in a tmux of its own, what is typed into it, and what stands on its screen. */

import { environment, until, type Place } from "../cli/lease.ts";

export const HAS_TMUX = Bun.which("tmux") !== null;

export class Tmux {
  readonly #env: Record<string, string>;
  readonly #folder: string;

  private constructor(place: Place, env: Record<string, string>) {
    this.#folder = place.folder;
    this.#env = environment({ ...env, TMUX_TMPDIR: place.folder, HOME: place.folder, LC_ALL: "C.UTF-8" });
    delete this.#env["TMUX"];
  }

  /** A prompt in the folder of the place. */
  static async open(place: Place, size: { columns: number; rows: number }, env: Record<string, string>): Promise<Tmux> {
    const tmux = new Tmux(place, env);
    const shell = ["env", "PS1=$ ", "PS2=> ", "bash", "--norc", "--noprofile"];
    const { columns, rows } = size;
    tmux.#tell("new-session", "-d", "-x", String(columns), "-y", String(rows), ...shell);
    tmux.#tell("set-option", "-g", "status", "off");
    await tmux.shows(/^\$ *$/m);
    return tmux;
  }

  /** Types a line on an empty screen and waits until it is answered. */
  async run(line: string, answer: RegExp): Promise<string> {
    await this.clear();
    this.type(line);
    return this.shows(answer);
  }

  type(line: string): void {
    this.#tell("send-keys", "-l", line);
    this.press("Enter");
  }

  press(...keys: string[]): void {
    this.#tell("send-keys", ...keys);
  }

  async clear(): Promise<void> {
    this.press("C-l");
    await this.shows(/^\$ *\n*$/);
  }

  /** The screen, once it has this on it. */
  async shows(what: RegExp): Promise<string> {
    let screen = "";
    try {
      await until(() => what.test((screen = this.screen())));
    } catch (error) {
      throw new Error(`the screen never showed ${what}, but\n${screen}`, { cause: error });
    }
    return screen;
  }

  /** `colours`: with the codes that paint it. */
  screen(how: { colours?: boolean } = {}): string {
    return this.#tell("capture-pane", "-p", ...(how.colours === true ? ["-e"] : []));
  }

  close(): void {
    this.#tell("kill-server");
  }

  #tell(...args: string[]): string {
    const argv = ["tmux", "-u", "-f", "/dev/null", ...args];
    const { stdout } = Bun.spawnSync(argv, { cwd: this.#folder, env: this.#env, timeout: 10_000 });
    return stdout.toString();
  }
}
