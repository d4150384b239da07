#!/usr/bin/env bash
# The whole test suite once with ASan, UBSan and LeakSanitizer in the compiler, the runtime, the interpreter and the tests.
#   tools/sanitize.sh [arguments of ctest]
# Builds to build-fuzz/, which tools/fuzz.sh shares, and closes with ctest's line. Sourced: only the sanitizers' options.
# LLVM's own library is not instrumented: it poisons its arenas where it is, and ours, which share them, would see that.
export ASAN_OPTIONS=detect_odr_violation=0:allow_user_poisoning=0:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
export ALTGRAD_BUILD=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build-fuzz ALTGRAD_CMAKE=-DALTGRAD_SANITIZE=ON
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
tools/build.sh | tail -n 1
ctest --test-dir build-fuzz --output-on-failure --timeout 3600 "$@"
