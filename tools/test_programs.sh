#!/usr/bin/env bash
# See to it that there is what tests use beside Python: Debian's chromium and curl, installed where root allows it.
# Without them those tests are skipped and say so; under continuous integration (CI=true) that is a failure.
set -euo pipefail

say() { printf '%s\n' "tests: $*" >&2; }

missing() { for name in chromium curl; do command -v "$name" >/dev/null || echo "$name"; done; }

lacks=$(missing | xargs)
if [ -z "$lacks" ]; then exit; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing by apt: $lacks"
  # shellcheck disable=SC2086
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $lacks; } >&2 ||
    say "apt could not install them"
fi
lacks=$(missing | xargs)
if [ -z "$lacks" ]; then exit; fi
say "this machine lacks: $lacks; on Debian:  sudo apt-get install $lacks"
if [ "${CI:-}" = true ]; then exit 1; fi
say "the tests that use them will be skipped"
