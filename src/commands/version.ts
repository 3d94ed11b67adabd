/** `lease version`: which lease this is, and what it stands on. */

import { platform } from "#platform";
import { command } from "../cli/command.ts";
import { JSON_FLAG } from "../cli/flags.ts";
import { sqliteVersion, VERSION } from "../platform/build_info.ts";

export default command({
  meta: { name: "version", description: "Show the version" },
  args: { json: JSON_FLAG },
  rest: "none",
  ignores_config: true,
  examples: [["lease version --json", "version, runtime and SQLite, for a bug report"]],
  run: async ({ args, io }) => {
    const sqlite = sqliteVersion();
    const { runtime } = platform;
    io.stdout(
      args.json
        ? `${JSON.stringify({ schema: 1, version: VERSION, runtime, sqlite })}\n`
        : `lease ${VERSION} (${runtime}, SQLite ${sqlite})\n`,
    );
    return 0;
  },
});
