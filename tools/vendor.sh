#!/usr/bin/env bash
# Fetch the console's vendored libraries again, at the versions below, with their licences. Only for who changes
# a version: the files are committed, nothing is fetched at install or at run time. Needs npm.
#
# After it: write the new versions and hashes into the two vendor/README.md; a test compares them with the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
static=src/tidewire/console/static/vendor
tests=tests/browser/vendor
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

# NAME@VERSION, where to, then the files to keep, as paths in the package.
take() {
  local package=$1 folder=$2 archive
  shift 2
  archive=$(cd "$unpacked" && npm pack --silent "$package" | tail -1)
  rm -rf "$unpacked/package" "$folder"
  tar -xzf "$unpacked/$archive" -C "$unpacked"
  mkdir -p "$folder"
  for file in LICENSE "$@"; do cp "$unpacked/package/$file" "$folder/"; done
}

take preact@11.2.0 "$static/preact" dist/preact.mjs hooks/dist/hooks.mjs
take htm@3.1.1 "$static/htm" dist/htm.mjs
take uplot@1.6.32 "$static/uplot" dist/uPlot.esm.js dist/uPlot.min.css
take axe-core@4.13.0 "$tests/axe-core" axe.min.js LICENSE-3RD-PARTY.txt

# A browser resolves no bare name without an import map, and ours would be an inline script, which the
# Content-Security-Policy forbids. The source maps stay behind.
sed -i 's|from"preact"|from"./preact.mjs"|' "$static/preact/hooks.mjs"
sed -i '/^\/\/# sourceMappingURL=/d' "$static/preact/"*.mjs
chmod 644 "$static"/*/* "$tests"/*/*
sha256sum "$static"/*/* "$tests"/*/*
