/** `lease version`: which lease this is, and what it stands on. */

import { platform } from "#platform";
import { command } from "../cli/command.ts";
import { JSON_FLAG } from "../cli/flags.ts";
import { COMMIT, sqliteVersion, VERSION } from "../platform/build_info.ts";
import { previewHere, SYSTEM } from "../platform/system.ts";
import { jsonLine } from "../view/json.ts";

/** As much of a commit as people write. */
const SHORT = 9;

export default command({
  meta: { name: "version", description: "Show the version" },
  args: { json: JSON_FLAG },
  rest: "none",
  ignores_config: true,
  examples: [["lease version --json", "version, commit, system, runtime and SQLite, for a bug report"]],
  run: async ({ args, io }) => {
    const found = {
      version: VERSION,
      commit: COMMIT,
      system: SYSTEM,
      runtime: platform.runtime,
      sqlite: sqliteVersion(),
    };
    const preview = previewHere() === null ? null : "preview";
    const parts = [COMMIT?.slice(0, SHORT), SYSTEM, preview, found.runtime, `SQLite ${found.sqlite}`];
    const below = parts.filter(Boolean).join(", ");
    io.stdout(args.json ? jsonLine(found) : `lease ${VERSION} (${below})\n`);
    return 0;
  },
});
