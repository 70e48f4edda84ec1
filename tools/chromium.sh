#!/usr/bin/env bash
# See to it that there is a Chromium for the browser tests: Debian's package, installed where root allows it.
# Without it those tests are skipped and say so; under continuous integration (CI=true) that is a failure.
set -euo pipefail

say() { printf '%s\n' "chromium: $*" >&2; }

if command -v chromium >/dev/null; then exit; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing by apt: chromium"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium; } >&2 ||
    say "apt could not install it"
fi
if command -v chromium >/dev/null; then exit; fi
say "this machine lacks chromium; on Debian:  sudo apt-get install chromium"
if [ "${CI:-}" = true ]; then exit 1; fi
say "the browser tests will be skipped"
