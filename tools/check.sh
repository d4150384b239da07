#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; closes with ctest's line.
#   tools/check.sh         what takes ten minutes on two cores, and the names of what it leaves out
#   tools/check.sh --all   every test
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in
'') all= ;;
--all) all=1 ;;
*) echo "check.sh: unknown option '$*'; there is --all" >&2; exit 2 ;;
esac
source tools/packages.sh
tools/build.sh | tail -n 1
# The same tests by another way (the stand-in GPUs), several processes, and what compiles or trains for minutes.
long='pytest-(python-sm.*|python-ranks.*|differential|differential-storage'
long+='|gpumodel|device|examples|wheel|reader)|numeric-format-.*|libtorch-sm80'
only=(-E "^($long)\$")
if [ -n "$all" ]; then
  tools/build.sh stock-bundles | tail -n 1
  only=()
fi
# Tests that measure nothing may share the cores, and while one waits for a timeout another runs. A thread that waits for another lets it run.
export OMP_WAIT_POLICY=passive
status=0
ctest --test-dir build --output-on-failure --timeout 1800 -j $(($(nproc) + 1)) "${only[@]}" || status=$?
if [ -z "$all" ]; then
  left=$(ctest --test-dir build -N -R "^($long)\$" | sed -n 's/^ *Test *#[0-9]*: //p' | paste -sd' ')
  echo "left out, run by tools/check.sh --all: $left"
fi
exit $status
