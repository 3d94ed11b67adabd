#!/usr/bin/env bash
# What the action does: a lease that is there, or the one of the release, and the step under its key.
set -euo pipefail

if ! command -v lease >/dev/null; then
  export LEASE_PREFIX=${RUNNER_TOOL_CACHE:-$HOME}/lease
  "$(dirname "$0")/../install.sh"
  PATH=$LEASE_PREFIX/bin:$PATH
  # The settings of the installer are not those of a lease that runs.
  unset LEASE_PREFIX
fi
unset LEASE_VERSION
# Words, but no patterns that stand for files.
read -r -d '' -a args <<<"${LEASE_RUN_ARGS:-}" || true
line=$LEASE_RUN_LINE
key=$LEASE_RUN_KEY
lease=$LEASE_RUN_LEASE
retries=$LEASE_RUN_RETRIES
unset "${!LEASE_RUN_@}"
# In place of this shell: the runner's INT and TERM are for lease. (The bash of a Mac takes an empty list for an unset one.)
exec lease run --key "$key" --lease "$lease" --retries "$retries" ${args[@]+"${args[@]}"} -c "$line"
