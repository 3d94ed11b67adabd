#!/usr/bin/env bash
# Makes the checkout ready on a machine that has only Node and npm: the Bun version that package.json pins, first on
# PATH, and node_modules as bun.lock says. Says nothing when there is nothing to do.
#
# Source it (`. scripts/setup.sh`) to get that PATH and `need_debian`, or run it to prepare the checkout only.
# Sourced, it ends the calling script with one line of explanation when it cannot do its work.

setup_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

setup_say() { printf 'setup: %s\n' "$*" >&2; }
setup_fail() { setup_say "$*"; exit 1; }

setup_bun() {
  local version bin=$setup_root/.tools/node_modules/.bin
  # sed, not node or bun: this runs before either is known to be here. "bun" is also an import condition, hence the digits.
  version=$(sed -n 's/^ *"bun": "\([0-9][0-9.]*\)".*/\1/p' "$setup_root/package.json")
  [ -n "$version" ] || setup_fail "package.json pins no exact version of bun in devDependencies"
  [ "$(bun --version 2>/dev/null)" != "$version" ] || return 0

  if [ "$("$bin/bun" --version 2>/dev/null)" != "$version" ]; then
    command -v npm >/dev/null || setup_fail "needs Bun $version, or npm to install it; neither is here"
    setup_say "installing Bun $version into .tools"
    npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
      --prefix "$setup_root/.tools" "bun@$version" >&2 || setup_fail "npm could not install bun@$version (see above)"
    [ "$("$bin/bun" --version 2>/dev/null)" = "$version" ] ||
      setup_fail "bun@$version was installed but does not run; does npm skip install scripts (ignore-scripts)?"
  fi
  export PATH="$bin:$PATH"
}

setup_dependencies() {
  local stamp=$setup_root/node_modules/.setup-stamp wanted
  # The machine is part of it because node_modules holds native programs and may lie on a shared folder.
  wanted="$(cat "$setup_root/package.json" "$setup_root/bun.lock" | cksum) $(uname -sm)"
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0

  setup_say "installing dependencies"
  rm -f "$stamp"
  (cd "$setup_root" && bun install --frozen-lockfile) >&2 || setup_fail "bun install failed (see above)"
  printf '%s\n' "$wanted" >"$stamp"
}

# need_debian CMD PACKAGE…: CMD is on PATH, installed from Debian's packages if need be. Answers 1, and says on stderr
# what to install, when it is not: call it in a condition.
need_debian() {
  local cmd=$1
  shift
  ! command -v "$cmd" >/dev/null || return 0
  if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    setup_say "SKIPPED: what needs '$cmd' does not run; install it first (on Debian, as root: apt-get install $*)"
    return 1
  fi
  setup_say "installing $*"
  if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"; } >&2; then
    setup_say "SKIPPED: what needs '$cmd' does not run; apt-get could not install $* (see above)"
    return 1
  fi
}

setup_bun
setup_dependencies
