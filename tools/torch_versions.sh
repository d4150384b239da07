#!/usr/bin/env bash
# Runs the quick tests of the Python package beside other versions of torch and Python, with the libraries of this
# build, and prints a row of a table for each.
#   tools/torch_versions.sh [TORCH:PYTHON ...]      default: 2.10.0:3.10 2.12.0:3.12 2.15.0:3.13
# Each has a virtual environment of its own, which goes when its tests are done. torch with what it needs takes 5 GB
# there. PYTHON is looked for on PATH and among pyenv's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${ALTGRAD_BUILD:-$root/build}
tests=(tensors clip amp ops)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

find_python() {
  # pyenv's stand-ins on PATH are no Pythons where that version is not switched on.
  if "python$1" -c "" 2>/dev/null; then
    command -v "python$1"
  else
    ls -d "$HOME/.pyenv/versions/$1".*/bin/python 2>/dev/null | tail -1
  fi
}

[ $# -gt 0 ] || set -- 2.10.0:3.10 2.12.0:3.12 2.15.0:3.13
failed=0
echo "| torch | Python | tests |"
echo "|---|---|---|"
for pair in "$@"; do
  torch=${pair%:*} version=${pair#*:}
  interpreter=$(find_python "$version") || true
  if [ -z "$interpreter" ]; then
    echo "there is no python$version on PATH nor among pyenv's: install it, or name another" >&2
    exit 2
  fi
  "$interpreter" -m venv "$scratch/venv"
  python=$scratch/venv/bin/python
  if ! "$python" -m pip install -q --disable-pip-version-check "torch==$torch" numpy ml_dtypes pytest >"$scratch/pip" 2>&1; then
    tail -3 "$scratch/pip" >&2
    exit 2
  fi
  said=$(cd "$root" && env ALTGRAD_OPT="$build/bin/altgrad-opt" ALTGRAD_LIBRARY="$build/lib/libaltgrad.so" \
    ALTGRAD_PTXINTERP="$build/tests/ptx/libptxinterp.so" PYTHONPATH="$root/runtime/python" \
    "$python" -m pytest -q -p no:cacheprovider "${tests[@]/#/tests/python/}" 2>&1 | tee "$scratch/said" | tail -1) ||
    { failed=1; grep '^FAILED\|^ERROR' "$scratch/said" >&2 || tail -20 "$scratch/said" >&2; }
  echo "| $("$python" -c 'import torch; print(torch.__version__)') | $("$python" -c 'import platform; print(platform.python_version())') | ${said% in *} |"
  rm -rf "$scratch/venv"
done
exit $failed
