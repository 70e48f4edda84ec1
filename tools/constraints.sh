#!/usr/bin/env bash
# Write constraints.txt: one version of every package that runs, tests or builds Tidewire, for all
# platforms and Pythons from 3.11 on, bound by the hashes of its files and free of download
# addresses, so that any index may serve them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=.cache/constraints
if [ ! -x $tool/bin/uv ]; then
  "${PYTHON:-python3}" -m venv $tool
  $tool/bin/python -m pip install -q uv
fi
$tool/bin/uv pip compile pyproject.toml --no-config --universal --python-version 3.11 --only-binary :all: --no-binary pyspark --upgrade --quiet \
  --extra bench --extra data --group dev --group build --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make constraints" --output-file constraints.txt
if grep -nE '://|^--' constraints.txt; then
  echo "constraints.txt names a download address" >&2
  exit 1
fi
