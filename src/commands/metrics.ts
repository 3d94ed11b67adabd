/** `lease metrics`: what Prometheus wants to know about the store, once or whenever it asks. */

import { renameSync, rmSync, writeFileSync } from "node:fs";
import { Registry } from "prom-client";
import { errorText, LeaseError } from "../core/errors.ts";
import { ADDRESS, FILE } from "../core/values.ts";
import { fenceInForce } from "../lookup/checkup.ts";
import { serveMetrics } from "../observe/metrics/serve.ts";
import { addStoreMetrics } from "../observe/metrics/store_metrics.ts";
import { VERSION } from "../platform/build_info.ts";
import type { Store } from "../store/store.ts";
import { command } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { ExitRequest } from "../cli/signals.ts";

export default command({
  meta: { name: "metrics", description: "Tell Prometheus about the store" },
  args: {
    serve: valueFlag(ADDRESS, "Answer scrapes at this address, until it is stopped"),
    output: valueFlag(FILE, "Write into this file, whole or not at all, instead of printing"),
  },
  rivals: [["serve"], ["output"]],
  rest: "none",
  examples: [
    ["lease metrics --serve 127.0.0.1:9464", "for a Prometheus on this machine"],
    ["lease metrics --output /var/lib/node_exporter/lease.prom", "from cron, for the textfile collector"],
    ["lease worker --metrics 127.0.0.1:9464", "a worker's own metrics, and the store's"],
  ],
  notes: ["Costs the store a few queries that don't grow with it."],
  run: async ({ args, io }) =>
    withStore(args, io, { create: false }, async ({ store }) => {
      if (args.serve === undefined) {
        const text = await read(store);
        if (args.output === undefined) io.stdout(text);
        else replaceFile(args.output, text);
        return 0;
      }
      const exit = new ExitRequest();
      const replaced = Promise.withResolvers<never>();
      const stopGuarding = store.onReplaced(replaced.reject);
      const listener = serveMetrics(args.serve, () => read(store));
      try {
        io.stderr(`lease: metrics at http://${args.serve.host}:${listener.port}/metrics\n`);
        const code = await Promise.race([exit.code, replaced.promise]);
        // Ctrl-C is how it is meant to end.
        return code === 130 ? 0 : code;
      } finally {
        stopGuarding();
        exit.release();
        await listener.stop();
      }
    }),
});

async function read(store: Store): Promise<string> {
  const registry = new Registry();
  await addStoreMetrics(registry, store, { version: VERSION, fence: fenceInForce() });
  return registry.metrics();
}

/** The collector must never read half of it. */
function replaceFile(path: string, text: string): void {
  const next = `${path}.${process.pid}`;
  try {
    writeFileSync(next, text, { mode: 0o644 });
    renameSync(next, path);
  } catch (error) {
    rmSync(next, { force: true });
    const why = PROBLEMS[(error as NodeJS.ErrnoException).code ?? ""] ?? errorText(error);
    throw new LeaseError("usage", `--output ${path} can't be written: ${why}`);
  }
}

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such folder",
  ENOTDIR: "there is no such folder",
  EACCES: "its folder is not yours to write",
  EISDIR: "it is a folder",
  ENOSPC: "the disk is full",
};
