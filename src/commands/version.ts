/** `lease version`: which lease this is, and what it stands on. */

import { platform } from "#platform";
import { command } from "../cli/command.ts";
import { JSON_FLAG } from "../cli/flags.ts";
import { sqliteVersion, VERSION } from "../platform/build_info.ts";
import { jsonLine } from "../view/json.ts";

export default command({
  meta: { name: "version", description: "Show the version" },
  args: { json: JSON_FLAG },
  rest: "none",
  ignores_config: true,
  examples: [["lease version --json", "version, runtime and SQLite, for a bug report"]],
  run: async ({ args, io }) => {
    const found = { version: VERSION, runtime: platform.runtime, sqlite: sqliteVersion() };
    io.stdout(args.json ? jsonLine(found) : `lease ${VERSION} (${found.runtime}, SQLite ${found.sqlite})\n`);
    return 0;
  },
});
