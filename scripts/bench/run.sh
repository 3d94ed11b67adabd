#!/usr/bin/env bash
# Measures what the project promises: each bench puts lease beside something else in the same run and prints one line
# per figure, `name  ours  other  ratio  target  ok|MISS`. Exit code 1 when any is missed.
#
#   scripts/bench/run.sh                       all of them, about ten minutes
#   scripts/bench/run.sh flood pickup          some of them
#   scripts/bench/run.sh --json [name…]        one JSON object per figure
#
# Absolute times differ from machine to machine; the ratios are what counts. Stores lie in TMPDIR, which must be a disk.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/setup.sh

all=(cold_enqueue bulk store_size inspect_size store_drain library_drain library_enqueue library_beats limits flood chatty shell_throughput fence fleet pickup recover postgres)
names=()
for word in "$@"; do
  case $word in
    --json) export LEASE_BENCH_JSON=1 ;;
    *)
      name=${word//-/_}
      [ -f "scripts/bench/$name.ts" ] && [[ " ${all[*]} " == *" $name "* ]] ||
        { printf 'no bench "%s"; there are: %s\n' "$word" "${all[*]//_/-}" >&2; exit 2; }
      names+=("$name")
      ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")

# A tool that can't be had leaves its figures out, and says so.
need_debian hyperfine hyperfine || true
need_debian parallel parallel || true
need_debian tsp task-spooler || true
need_debian nq nq || true

unset "${!LEASE_STORE@}" LEASE_JOB_ID LEASE_TOKEN
workspace=$(mktemp -d "${TMPDIR:-/var/tmp}/lease-bench.XXXXXX")
trap 'rm -rf "$workspace"' EXIT
export LEASE_BENCH_DIR=$workspace
# Built aside, so that a build or a test run in dist/ meanwhile does not change what is measured.
bun scripts/build.ts --outfile "$workspace/lease" >&2

missed=0
for name in "${names[@]}"; do
  bun "scripts/bench/$name.ts" || missed=1
done
exit "$missed"
