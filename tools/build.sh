#!/usr/bin/env bash
# Configures and builds to build/; needs what tools/packages.sh installs. The arguments are ninja's.
# ALTGRAD_BUILD names another folder, ALTGRAD_CMAKE options for it: tools/sanitize.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${ALTGRAD_BUILD:-$root/build}
home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
if [ -n "$home" ] && [ "$(realpath "$home")" != "$(realpath "$root")" ]; then
  echo "$build was made for the checkout in $home, of which $root is a copy: remove $build and $root/.venv, which belong to it, and run tools/quickstart.sh" >&2
  exit 1
fi
# ccache keeps the precompiled header only when it may ignore these.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
# Another checkout finds the same objects.
if [ -z "$(ccache --get-config base_dir 2>/dev/null)" ]; then
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1 # tools/cmake/Precompile.cmake
fi
if [ -z "${ALTGRAD_PYTHON:-}" ]; then
  ALTGRAD_PYTHON=$root/.venv/bin/python
  [ -x "$ALTGRAD_PYTHON" ] || ALTGRAD_PYTHON=$(command -v python3)
fi
cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release ${ALTGRAD_CMAKE:-} \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DLLVM_USE_LINKER=lld \
  -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DALTGRAD_PYTHON="$ALTGRAD_PYTHON" >"$build.log" 2>&1 || {
  cat "$build.log"
  rm -f "$build/CMakeCache.txt" # it may have kept empty flags, and the next build would not be optimised
  exit 1
}
rm -f "$build.log"
ninja -C "$build" "$@"
