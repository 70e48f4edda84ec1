#!/usr/bin/env bash
# Build the kernel with AddressSanitizer and UBSan and run the given tests against that build.
#
#   tools/sanitize.sh tests/kernel tests/property
#
# The sanitized module is staged with a copy of the Python side under build/sanitize/, and put ahead
# of the installed package by PYTHONPATH; nothing in src/ changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$PWD/.venv
build=$PWD/build/sanitize
stage=$build/stage

"$venv/bin/cmake" -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTIDEWIRE_SANITIZE=ON \
  -DCMAKE_MAKE_PROGRAM="$venv/bin/ninja" -DPython_EXECUTABLE="$venv/bin/python" >"$build.log" 2>&1 ||
  { cat "$build.log" >&2; exit 1; }
"$venv/bin/cmake" --build "$build" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
rm -rf "$stage"
mkdir -p "$stage"
cp -R src/tidewire "$stage/"
find "$stage" -name '*.so' -delete
# The editable install finds the package by this hook, ahead of any path: an empty one in its place.
: >"$stage/_editable_skbc_tidewire.py"
"$venv/bin/cmake" --install "$build" --prefix "$stage" >/dev/null

libraries=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libubsan.so)
run() {
  LD_PRELOAD=$libraries ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    PYTHONMALLOC=malloc PYTHONPATH=$stage "$venv/bin/python" "$@"
}
run - "$stage" <<'PY'
import pathlib, sys
from tidewire._kernel import _native
where = pathlib.Path(_native.__file__)
if not where.is_relative_to(sys.argv[1]):
    sys.exit(f"the sanitized kernel is not the one imported: {where}")
print(f"sanitized kernel: {where.relative_to(pathlib.Path.cwd())}")
PY
# --capture=sys leaves file descriptor 2 alone: a fault ends the process, its report must get out.
run -m pytest --capture=sys "$@"
