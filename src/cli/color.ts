/** Whether to colour: what the user says, else NO_COLOR, else whether somebody is looking. */

import type { Io } from "./command.ts";
import type { COLOR_CHOICES } from "./flags.ts";

export function wantsColor(choice: (typeof COLOR_CHOICES)[number], io: Pick<Io, "env" | "is_tty">): boolean {
  if (choice !== "auto") return choice === "always";
  // no-color.org: set and not empty.
  return io.is_tty && (io.env["NO_COLOR"] ?? "") === "" && io.env["TERM"] !== "dumb";
}
