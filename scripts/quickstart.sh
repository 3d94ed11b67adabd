#!/usr/bin/env bash
# A tour of lease: builds dist/lease, then enqueues a few jobs, works them off and looks at the result. Every command is
# printed before it runs. The store is a temporary one, unless LEASE_STORE names another.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/setup.sh"

bun "$root/scripts/build.ts"
PATH=$root/dist:$PATH

if [ -z "${LEASE_STORE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  export LEASE_STORE=$folder/lease.db
fi

# Takes the command as text, so that what is shown is what a reader can paste.
tour() {
  printf '\n$ %s\n' "$1"
  eval "$1"
}

tour 'lease enqueue -- echo "a job is a command; enqueue prints its id"'
tour 'lease enqueue -c "for n in 1 2 3; do echo line \$n; sleep 0.2; done"'
tour 'lease enqueue --queue mail -- echo "a job in another queue"'
tour 'id=$(lease enqueue --retries 1 -c "echo attempt \$LEASE_ATTEMPT; test \$LEASE_ATTEMPT -ge 2")'
tour 'lease enqueue --lease 2s --retries 0 -c "echo working; sleep 60"'
printf '\n# The last one hangs: it prints nothing for longer than its lease, so the worker will stop it.\n'
tour 'lease worker --queue default --queue mail --until-empty -j 2 || echo "exit code $?: a job failed"'
tour 'lease inspect'
tour 'lease inspect "$id"'
tour 'lease logs "$id" --timestamps'
printf '\n# It is %s, one file: put it where your PATH looks. Next: lease --help, docs/concepts.md.\n' "$root/dist/lease"
