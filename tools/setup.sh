#!/usr/bin/env bash
# Make the environment: .venv with pinned packages, and the kernel built from the sources as they
# stand. Safe to run before everything: a second run finds nothing to do and takes about a second.
#
#   PYTHON=python3.12 make setup    choose the interpreter (3.11 or newer)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=$root/.venv
build=$root/build/dev
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$root/.cache/pip} PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s\n' "setup: $*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local name
  for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if is_new_enough "$name"; then command -v "$name"; return; fi
  done
  return 1
}

# Names the Debian packages of what this machine lacks; tries each thing rather than looking for it.
missing_packages() {
  local python
  if ! printf '#include <bit>\nint main() { return std::popcount(0u); }\n' |
    g++ -std=c++20 -x c++ - -fsyntax-only 2>/dev/null; then echo g++; fi
  if ! printf '#include <openssl/ssl.h>\nstatic_assert(OPENSSL_VERSION_MAJOR >= 3);\n' |
    g++ -std=c++20 -x c++ - -fsyntax-only 2>/dev/null; then echo libssl-dev; fi
  if ! command -v make >/dev/null; then echo make; fi
  if ! python=$(find_python); then echo python3 python3-venv python3-dev; return; fi
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then echo python3-venv; fi
  if ! "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())'; then echo python3-dev; fi
}

install_missing() {
  local missing still
  missing=$(missing_packages | xargs)
  if [ -z "$missing" ]; then return; fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing by apt: $missing"
    # shellcheck disable=SC2086
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
    } >&2
    still=$(missing_packages | xargs)
    if [ -z "$still" ]; then return; fi
    missing=$still
  fi
  say "this machine lacks: $missing"
  say "on Debian or Ubuntu:  sudo apt-get install $missing"
  say "elsewhere: a C++20 compiler called g++, OpenSSL 3 with its headers, and Python 3.11 or newer with its headers and venv"
  exit 1
}

# The data cluster runs on Java; everything else does without, so its lack is told and ends nothing.
has_java() {
  local found
  found=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${found:-0}" -ge 17 ]
}

install_java() {
  if has_java; then return; fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing by apt: openjdk-17-jre-headless"
    { apt-get update -q &&
      DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends openjdk-17-jre-headless; } >&2 || true
    if has_java; then return; fi
  fi
  say "this machine lacks Java 17 or 21, which the data cluster runs on; all the rest works without it"
  say "on Debian or Ubuntu:  sudo apt-get install openjdk-17-jre-headless;  elsewhere set JAVA_HOME"
}

version_of() { "$1" -c 'import sys; print(*sys.version_info[:2])'; }

is_asked_for() { [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$venv/bin/python")" ]; }

is_venv_sound() {
  is_new_enough "$venv/bin/python" && is_asked_for && "$venv/bin/python" -m pip --version >/dev/null 2>&1 &&
    grep -qxF "VIRTUAL_ENV=$venv" <(. "$venv/bin/activate" && echo "VIRTUAL_ENV=$VIRTUAL_ENV")
}

install_packages() {
  if ! is_venv_sound; then
    say "creating .venv"
    rm -rf "$venv" "$root/build"
    "$(find_python)" -m venv "$venv"
  fi
  say "installing the pinned packages"
  # PySpark comes as a source: what builds it is pinned too, and is there before it.
  "$venv/bin/python" -m pip install -qq --require-hashes -r <(awk '/^[^ ]/ { is_it = /^setuptools==/ } is_it' constraints.txt)
  "$venv/bin/python" -m pip install -qq --require-hashes --no-build-isolation -r constraints.txt
  # The Python side is installed in place and without CMake: the kernel is built below, each time.
  "$venv/bin/python" -m pip install -qq --no-build-isolation --no-deps --editable . \
    --config-settings=wheel.cmake=false --config-settings=editable.mode=inplace
  wanted_state >"$venv/.installed"
}

# What .venv was made from, and where: a moved checkout is set up again.
wanted_state() { cat constraints.txt pyproject.toml tools/setup.sh | cksum; echo "$root"; }

is_installed() {
  [ "$(cat "$venv/.installed" 2>/dev/null)" = "$(wanted_state)" ] && [ -x "$venv/bin/tidewire" ] &&
    is_new_enough "$venv/bin/python" && is_asked_for
}

# Configures once, then builds what changed (a changed CMakeLists.txt, or a new or removed source,
# configures again) and puts the module beside its Python package.
build_kernel() {
  local log=$build.log
  if [ ! -f "$build/build.ninja" ]; then
    mkdir -p "$root/build"
    "$venv/bin/cmake" -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_MAKE_PROGRAM="$venv/bin/ninja" -DPython_EXECUTABLE="$venv/bin/python" >"$log" 2>&1 ||
      { cat "$log" >&2; rm -f "$build/build.ninja"; exit 1; }
  fi
  "$venv/bin/cmake" --build "$build" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  grep -E 'warning:' "$log" >&2 || true
  "$venv/bin/cmake" --install "$build" --prefix "$root/src" >"$log.install" 2>&1 ||
    { cat "$log.install" >&2; exit 1; }
}

mkdir -p "$root/.cache"
if command -v flock >/dev/null; then
  exec 9>"$root/.cache/setup.lock"
  flock 9 # two make runs at once build one after the other
fi
if ! is_installed; then
  install_missing
  install_java
  install_packages
fi
build_kernel
