#!/usr/bin/env bash
# The league: ours, our peers and the limit do the same work by turns; a table of ratios with what each keeps beside it.
#
#   scripts/bench/run.sh                       the whole league, about half an hour on a quiet machine
#   scripts/bench/run.sh --only shell,store    some of it: shell, store, library, postgres
#   scripts/bench/run.sh --quick               small and once, to see that all of it works: about a minute
#   scripts/bench/run.sh --turns 3             no more turns than that
#   scripts/bench/run.sh --json                one JSON object per figure
#   scripts/bench/run.sh --readme              and written into README.md
#   scripts/bench/run.sh --history FILE        kept there instead of scripts/bench/history.jsonl (none: nowhere)
#   scripts/bench/run.sh flood pickup          single benches with targets, `name  ours  other  ratio  target  ok|MISS`;
#                                              exit code 1 when any is missed
#
# Absolute times differ from machine to machine; the ratios are what counts. Stores lie in TMPDIR, which must be a disk.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/setup.sh

all=(cold_enqueue growth bulk store_size inspect_size dashboard store_drain library_drain library_enqueue library_beats library_postgres limits flood chatty shell_throughput fence fleet pickup recover steps idle postgres)
names=()
flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --json) export LEASE_BENCH_JSON=1 ;;
    --quick | --readme) flags+=("$1") ;;
    --only | --history | --turns)
      [ $# -gt 1 ] || { printf '%s needs a value\n' "$1" >&2; exit 2; }
      flags+=("$1" "$2"); shift ;;
    *)
      name=${1//-/_}
      [ -f "scripts/bench/$name.ts" ] && [[ " ${all[*]} " == *" $name "* ]] ||
        { printf 'no bench "%s"; there are: %s\n' "$1" "${all[*]//_/-}" >&2; exit 2; }
      names+=("$name")
      ;;
  esac
  shift
done

# A tool that can't be had leaves its figures out, and says so.
need_debian hyperfine hyperfine || true
# moreutils has a `parallel` of its own; `sem` is GNU's alone.
need_debian sem parallel || true
need_debian tsp task-spooler || true
need_debian nq nq || true

unset "${!LEASE_STORE@}" LEASE_JOB_ID LEASE_TOKEN
workspace=$(mktemp -d "${TMPDIR:-/var/tmp}/lease-bench.XXXXXX")
trap 'rm -rf "$workspace"' EXIT
export LEASE_BENCH_DIR=$workspace
# Built aside, so that a build or a test run in dist/ meanwhile does not change what is measured.
bun scripts/build.ts --outfile "$workspace/lease" >&2

missed=0
[ ${#names[@]} -gt 0 ] || bun scripts/bench/league/league.ts ${flags[@]+"${flags[@]}"} || missed=1
for name in ${names[@]+"${names[@]}"}; do
  bun "scripts/bench/$name.ts" || missed=1
done
exit "$missed"
