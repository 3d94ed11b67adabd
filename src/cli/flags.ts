/** Flags that commands have in common: SHARED_FLAGS on every command, the others where a command lists them. */

export const COLOR_CHOICES = ["auto", "always", "never"] as const;

export const SHARED_FLAGS = {
  store: {
    type: "string",
    valueHint: "PATH|URL",
    description: "Where the jobs are: an SQLite file, or postgres://…",
    fallback: "$LEASE_STORE, or lease/lease.db in $XDG_STATE_HOME",
  },
  trust_store: {
    type: "boolean",
    description: "Use the store even if others can write to it; it decides what gets executed",
  },
  config: {
    type: "string",
    valueHint: "FILE",
    description: "Settings for flags that are not given",
    fallback: "$LEASE_CONFIG, lease.toml here, or lease/lease.toml in $XDG_CONFIG_HOME",
  },
  color: {
    type: "enum",
    options: COLOR_CHOICES,
    default: "auto",
    description: "Colour the output; auto: on a terminal, unless NO_COLOR is set",
  },
  verbose: { type: "boolean", alias: "v", description: "Say more about what happens, on stderr" },
  help: { type: "boolean", alias: "h", description: "Show this help" },
} as const;

/** What may stand before the command's name. */
export const FRONT_FLAGS = {
  ...SHARED_FLAGS,
  version: { type: "boolean", alias: "V", description: "Show the version" },
} as const;

/** For a command that prints something a script may want. */
export const JSON_FLAG = { type: "boolean", description: "Print JSON" } as const;
