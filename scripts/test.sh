#!/usr/bin/env bash
# Everything that must hold before a commit: format, lint, types, dead code, the build, all tests.
# Arguments go to `bun test` (scripts/test.sh test/core). Each static check counts as one; the last line is always
# `N passed, N failed`, and the exit code is 1 unless all passed. A step that fails does not stop the next, hence no -e.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

passed=0
failed=0
complete=
output=$(mktemp)

finish() {
  rm -f "$output"
  # Set-up that ends this script, or an interrupt, must not look like success.
  [ -n "$complete" ] || failed=$((failed + 1))
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] || exit 1
}
trap finish EXIT
trap 'exit 1' INT TERM

check() {
  local title=$1
  shift
  if "$@" >"$output" 2>&1; then
    passed=$((passed + 1))
    printf '== %s: ok\n' "$title"
  else
    failed=$((failed + 1))
    printf '== %s: FAILED (%s)\n' "$title" "$*"
    cat "$output"
  fi
}

# Reads bun test's closing lines, not its junit report: that one leaves out test files that could not be loaded.
closing() { tail -n 12 "$output" | sed -n "s/^ *$1\$/\1/p" | tail -n 1; }

tests() {
  local status passes failures ran
  printf '== tests\n'
  bun test "$@" 2>&1 | tee "$output"
  status=${PIPESTATUS[0]}
  passes=$(closing '\([0-9]*\) pass')
  failures=$(closing '\([0-9]*\) fail')
  # A runner that died, or a test that called exit(0), leaves no such line.
  ran=$(closing 'Ran \([0-9]*\) tests\{0,1\} across.*')
  if [ "${failures:-0}" -eq 0 ] && { [ "$status" -ne 0 ] || [ -z "$ran" ]; }; then
    printf '== tests: FAILED (bun test ended with %d and named no failed test)\n' "$status"
    failures=1
  fi
  passed=$((passed + ${passes:-0}))
  failed=$((failed + ${failures:-0}))
}

. scripts/setup.sh
# Shells that completions are tried in; a machine that can't have them is told so.
need_debian zsh zsh || true
need_debian fish fish || true
# What makes a disk fail at a place that can be named, and shows that syncs come before answers.
need_debian strace strace || true
# What Prometheus says of our metrics and rules.
need_debian promtool prometheus || true
# What systemd says of our units.
need_debian systemd-analyze systemd || true
# A terminal that can be looked at.
need_debian tmux tmux || true
# A clock that tests can set for real processes, and a mailer.
need_debian faketime faketime || true
need_debian msmtp msmtp || true
# What is wrong with our shell scripts.
need_debian shellcheck shellcheck || true
# What rpm says of our packages.
need_debian rpm rpm || true
need_debian cpio cpio || true
# A browser that the dashboard is tried in.
[ -n "${CHROMIUM:-}" ] || need_debian chromium chromium || true
# The closing lines are read back, so no colour; and the tests must not see the store or the job of whoever runs them.
given_postgres=${LEASE_TEST_POSTGRES:-}
unset FORCE_COLOR "${!LEASE_@}"
[ -z "$given_postgres" ] || export LEASE_TEST_POSTGRES=$given_postgres
export NO_COLOR=1

check format bun fmt --check src test scripts
check lint bun x --bun oxlint
check types bun check
check 'dead code' bun x --bun knip
check build bun scripts/build.ts
tests "$@"
complete=yes
