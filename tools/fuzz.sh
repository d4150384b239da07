#!/usr/bin/env bash
# Fuzzes the front end, the passes and PTX emission with ASan and UBSan, seeded with the templates and the tests' specs.
#   tools/fuzz.sh [SECONDS=600]
# Builds to build-fuzz/. What it finds is left in build-fuzz/found/ and belongs, reduced, into tests/regression/.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
cmake -G Ninja -S . -B build-fuzz -DCMAKE_BUILD_TYPE=Release -DALTGRAD_SANITIZE=ON \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DLLVM_USE_LINKER=lld \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DALTGRAD_PYTHON="$ALTGRAD_PYTHON" >/dev/null
ninja -C build-fuzz compile-fuzzer altgrad-opt | tail -n 1

mkdir -p build-fuzz/seeds build-fuzz/corpus build-fuzz/found
cp templates/*.mlir templates/steps/*.mlir build-fuzz/seeds/
find tests/dialect tests/passes tests/regression -name '*.mlir' -exec cp {} build-fuzz/seeds/ \;
for rule in templates/*.mlir; do
  name=$(basename "$rule" .mlir)
  { cat "$rule"; build-fuzz/bin/altgrad-opt --rule="$name" --clip --unscale --print-step; } >"build-fuzz/seeds/step-$name.mlir"
done
# LLVM poisons its arenas where it is instrumented; its own library, which shares them, is not.
export ALTGRAD_TEMPLATES=$PWD/templates ASAN_OPTIONS=detect_odr_violation=0:detect_leaks=0:allow_user_poisoning=0 UBSAN_OPTIONS=print_stacktrace=1
exec build-fuzz/bin/compile-fuzzer build-fuzz/corpus build-fuzz/seeds -max_len=8192 -timeout=5 -rss_limit_mb=4096 \
  -artifact_prefix=build-fuzz/found/ -max_total_time="${1:-600}" -print_final_stats=1 -close_fd_mask=2 -verbosity=1
