#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds, compiles AdamW for the CPU and for two GPUs,
# trains a small network with torch's AdamW and with altgrad's. A second run installs and builds nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
started=$SECONDS

step() { printf '\n%s\n' "$*"; }
size() { numfmt --to=iec --suffix=B "$(stat -c %s "$1")"; }

step "1. packages"
source tools/packages.sh
echo "  ready; Python is $ALTGRAD_PYTHON"

step "2. build (build/)" # what a wheel carries; tools/check.sh builds the rest
if [ -t 1 ] && [ -z "${CI:-}" ]; then
  tools/build.sh product # ninja counts on one line
else
  log=$(tools/build.sh product 2>&1) || { printf '%s\n' "$log"; exit 1; }
  tail -n 1 <<<"$log" | sed 's/^/  /'
fi

step "3. templates/adamw.mlir, compiled"
opt=build/bin/altgrad-opt
out=build/quickstart
mkdir -p "$out"
adamw=("$opt" --rule=adamw)
"${adamw[@]}" --emit=report | sed 's/^/  /'
"${adamw[@]}" --target=x86-64-v4 --emit=asm -o "$out/adamw.x86-64-v4.s"
for target in sm_80 sm_90; do
  "${adamw[@]}" --target=$target --emit=ptx -o "$out/adamw.$target.ptx"
done
"${adamw[@]}" --target=x86-64-v3,x86-64-v4,sm_80,sm_90 --emit=bundle -o "$out/adamw.so"
for made in "$out"/adamw.*; do
  case $made in
  *.s) what="the assembly of the host code" ;;
  *.ptx) what="PTX, $(grep -m 1 -o '^\.version [0-9.]*' "$made"), $(grep -c '^\.visible \.entry\|^\.entry' "$made") kernels" ;;
  *.so) what="all of it in one bundle, for the runtime" ;;
  *) continue ;;
  esac
  printf '  %-36s %6s  %s\n' "$made" "$(size "$made")" "$what"
done

step "4. the Python package"
where=$({ cd / && "$ALTGRAD_PYTHON" -c 'import altgrad; print(altgrad.__file__)'; } 2>/dev/null) || where=
if [[ $where != "$root"/runtime/* ]]; then # nor from a wheel, which would not be the checkout's code
  if "$ALTGRAD_PYTHON" -m pip install -q --disable-pip-version-check --no-deps -e . >build/quickstart/pip.log 2>&1; then
    echo "  installed (editable)"
  else
    echo "  not installed, used from the checkout: $(grep -m 1 -i error build/quickstart/pip.log || tail -n 1 build/quickstart/pip.log)"
    export PYTHONPATH=$root/runtime/python${PYTHONPATH:+:$PYTHONPATH}
  fi
else
  echo "  installed already: ${where%/*}"
fi

step "5. training on scikit-learn's handwritten digits, twice from the same seed"
"$ALTGRAD_PYTHON" tools/demo.py

printf '\nDone in %d s. Next: tools/check.sh runs the tests, tools/bench.py measures, README.md shows how to use it.\n' \
  $((SECONDS - started))
