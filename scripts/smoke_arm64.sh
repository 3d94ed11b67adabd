#!/usr/bin/env bash
# A first job with the lease of a linux-arm64 archive, on whatever machine this is, by qemu's user emulation.
#   scripts/smoke_arm64.sh ARCHIVE [LIBRARIES]   where LIBRARIES has lib/ld-linux-aarch64.so.1
# Debian: apt-get install qemu-user libc6-arm64-cross
set -euo pipefail
archive=${1:?scripts/smoke_arm64.sh ARCHIVE [LIBRARIES]}
libraries=${2:-/usr/aarch64-linux-gnu}
qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1 || true)
[ -n "$qemu" ] || { echo "needs qemu-user: apt-get install qemu-user libc6-arm64-cross" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$archive" -C "$folder" --strip-components=1
mkdir -m 700 "$folder/store"
export LEASE_STORE=$folder/store/lease.db
lease() { "$qemu" -L "$libraries" "$folder/lease" "$@"; }

lease version
id=$(lease enqueue --retries 1 -c 'echo "attempt $LEASE_ATTEMPT"; test "$LEASE_ATTEMPT" -ge 2')
lease worker --until-empty
test "$(lease wait "$id"; echo $?)" = 0
lease inspect "$id" --json | grep -q '"state":"completed"'
lease logs "$id"
lease run -c 'exit 7' || test $? -eq 7
lease watchdog --once
lease doctor >/dev/null || test $? -le 1
printf 'linux-arm64 works under qemu\n'
