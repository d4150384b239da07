#!/usr/bin/env bash
# The whole test suite once with ASan, UBSan and LeakSanitizer in the compiler, the runtime, the interpreter and the tests.
#   tools/sanitize.sh [arguments of ctest]
#   tools/sanitize.sh --threads [arguments of ctest]    the runtime's unit tests with ThreadSanitizer, in build-tsan/
# Builds to build-fuzz/, which tools/fuzz.sh shares, and closes with ctest's line. Sourced: only the sanitizers' options.
# LLVM's own library is not instrumented: it poisons its arenas where it is, and ours, which share them, would see that.
export ASAN_OPTIONS=detect_odr_violation=0:allow_user_poisoning=0:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
export ALTGRAD_BUILD=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build-fuzz ALTGRAD_CMAKE=-DALTGRAD_SANITIZE=ON
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
if [ "${1-}" = --threads ]; then
  shift
  unset ALTGRAD_BUILD ALTGRAD_CMAKE
  export CC=clang-22 CXX=clang++-22 CFLAGS="-fsanitize=thread -shared-libsan -g1" TSAN_OPTIONS=die_after_fork=0
  export CXXFLAGS=$CFLAGS LDFLAGS=-Wl,-rpath,$(dirname "$(clang++-22 -print-file-name=libclang_rt.tsan-x86_64.so)")
  cmake -S tests/unit -B build-tsan -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache | tail -n 1
  ninja -C build-tsan | tail -n 1
  # Python cannot load a library with this sanitizer; the exhaustive formats have no threads.
  ctest --test-dir build-tsan --output-on-failure --timeout 1800 -E '^(ptx.forms|ptx.coverage|numeric-.*)$' "$@"
  exit
fi
tools/build.sh | tail -n 1
ctest --test-dir build-fuzz --output-on-failure --timeout 3600 "$@"
