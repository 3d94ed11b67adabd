#!/bin/sh
# Installs lease into a folder of yours: no sudo, no service, nothing but the executable, its man page and completions.
#
#   curl -fsSL https://github.com/lease-queue/lease/releases/latest/download/install.sh | sh
#
#   LEASE_VERSION=1.0.0       that one instead of the newest
#   LEASE_PREFIX=/opt/lease   → $LEASE_PREFIX/bin/lease, and its papers below $LEASE_PREFIX/share; else ~/.local
#   LEASE_FROM=URL|FOLDER     where the files of the release are, else GitHub
#
# What is fetched is compared with the release's SHA256SUMS before anything is put in place.
set -eu

repository=lease-queue/lease
say() { printf '%s\n' "$*" >&2; }
fail() {
  say "install.sh: $*"
  exit 1
}

system() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "lease is not built for $(uname -s); on Windows use WSL 2" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) cpu=x64 ;;
    aarch64 | arm64) cpu=arm64 ;;
    *) fail "lease is not built for $(uname -m)" ;;
  esac
  # A shell that Rosetta runs says it is an Intel.
  if [ "$os" = darwin ] && [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" = 1 ]; then cpu=arm64; fi
  libc=
  # Of whichever library it is a part; a loader of musl may lie beside that of a system with glibc.
  if [ "$os" = linux ]; then case $(ldd --version 2>&1 || true) in *musl*) libc=-musl ;; esac; fi
  target=$os-$cpu$libc
}

# get NAME FILE: a file of the release.
get() {
  case $from in
    http://* | https://*)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https,http' --retry 3 -o "$2" "$from/$1"
      elif command -v wget >/dev/null; then
        wget -qO "$2" "$from/$1"
      else
        fail "needs curl or wget"
      fi || fail "$from/$1 could not be fetched"
      ;;
    *) cp "$from/$1" "$2" || fail "$from/$1 is not there" ;;
  esac
}

# Whether a folder can be made there, or is there, and takes files.
takes_files() {
  place=$1
  while [ ! -e "$place" ]; do place=$(dirname "$place"); done
  [ -d "$place" ] && [ -w "$place" ]
}

digest() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$1"
  elif command -v shasum >/dev/null; then
    shasum -a 256 "$1"
  else
    fail "needs sha256sum or shasum: what can't be checked is not installed"
  fi | cut -d' ' -f1
}

main() {
  system
  [ -n "${LEASE_PREFIX:-${HOME:-}}" ] || fail "HOME is not set: LEASE_PREFIX=FOLDER names a place"
  prefix=${LEASE_PREFIX:-$HOME/.local}
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  version=${LEASE_VERSION:-}
  version=${version#v}
  from=${LEASE_FROM:-https://github.com/$repository/releases/${version:+download/v}${version:-latest/download}}
  for folder in "$prefix/bin" "$prefix/share"; do
    takes_files "$folder" || fail "you may not write to $folder: LEASE_PREFIX=FOLDER names another place"
  done
  work=$(mktemp -d)
  trap 'rm -rf "$work" "$prefix/bin/.lease.new"' EXIT

  get SHA256SUMS "$work/SHA256SUMS"
  # The only archive of that name, whatever its version.
  line=$(grep -E "  lease-${version:-[0-9][^ ]*}-$target\.tar\.gz\$" "$work/SHA256SUMS" | head -n 1)
  [ -n "$line" ] || fail "this release has no ${version:+$version }for $target"
  expected=${line%% *}
  archive=${line##* }
  say "lease: fetching $archive from $from"
  get "$archive" "$work/$archive"
  found=$(digest "$work/$archive")
  [ "$found" = "$expected" ] || fail "$archive has SHA-256 $found, and SHA256SUMS says $expected: nothing was installed"
  say "lease: SHA-256 is as the release says: $found"

  tar -xzf "$work/$archive" -C "$work"
  unpacked=$work/${archive%.tar.gz}
  # By another name first: a lease that is running keeps its file, and nobody sees half of one. And tried only there: from a
  # temporary folder programs may not be started everywhere.
  { mkdir -p "$prefix/bin" "$prefix/share" && cp "$unpacked/lease" "$prefix/bin/.lease.new"; } ||
    fail "$prefix does not take it (see above): nothing was changed"
  "$prefix/bin/.lease.new" version >/dev/null ||
    fail "$archive does not run on this machine ($target)${libc:+; does it have libstdc++? On Alpine: apk add libstdc++}"
  mv -f "$prefix/bin/.lease.new" "$prefix/bin/lease"
  cp -R "$unpacked/share/." "$prefix/share/"

  say "lease: installed $("$prefix/bin/lease" version) as $prefix/bin/lease"
  say "lease: its man page and completions are what is named lease or _lease below $prefix/share; nothing else was changed"
  case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "lease: $prefix/bin is not on your PATH; in your shell's profile: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
  case $target in darwin-*) say "lease: macOS is a preview: https://github.com/$repository/blob/main/docs/install.md#systems" ;; esac
  say "lease: try: lease enqueue -- echo hello && lease worker --until-empty"
}

# All of it or nothing, should the download break off.
main
