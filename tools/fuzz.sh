#!/usr/bin/env bash
# Fuzzes the front end, the passes and PTX emission with ASan, UBSan and LeakSanitizer,
# seeded with the templates and the tests' specs.
#   tools/fuzz.sh [SECONDS=600]
# Builds to build-fuzz/. What it finds is left in build-fuzz/found/ and belongs, reduced, into tests/regression/.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
source tools/sanitize.sh
tools/build.sh compile-fuzzer altgrad-opt | tail -n 1

mkdir -p build-fuzz/seeds build-fuzz/corpus build-fuzz/found
cp templates/*.mlir templates/steps/*.mlir build-fuzz/seeds/
find tests/dialect tests/frontend tests/passes tests/regression -name '*.mlir' -exec cp {} build-fuzz/seeds/ \;
for rule in templates/*.mlir; do
  name=$(basename "$rule" .mlir)
  { build-fuzz/bin/altgrad-opt --rule="$name" --print-rule; build-fuzz/bin/altgrad-opt --rule="$name" --clip --unscale --print-step; } >"build-fuzz/seeds/step-$name.mlir"
done
export ALTGRAD_TEMPLATES=$PWD/templates
exec build-fuzz/bin/compile-fuzzer build-fuzz/corpus build-fuzz/seeds -max_len=8192 -timeout=5 -detect_leaks=1 -rss_limit_mb=4096 \
  -artifact_prefix=build-fuzz/found/ -max_total_time="${1:-600}" -print_final_stats=1 -close_fd_mask=2 -verbosity=1
