#!/usr/bin/env bash
# The registers of the largest kernel of each stock step (a template in f32, clipped) on each GPU target, as ptxas counts them.
#   tools/registers.sh [STORAGE]      e.g. "param=bf16 master=f32"
set -euo pipefail
cd "$(dirname "$0")/.."
ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
[ -x "$ptxas" ] || { echo "no ptxas on this machine: registers are not counted"; exit 0; }
opt=build/bin/altgrad-opt
targets=(sm_80 sm_86 sm_89 sm_90 sm_90a)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%-10s' rule
printf '%8s' "${targets[@]}"
echo
for rule in $($opt --list-rules); do
  printf '%-10s' "$rule"
  for target in "${targets[@]}"; do
    $opt --rule="$rule" --storage="${1:-}" --clip --target="$target" --emit=ptx -o "$scratch/k.ptx"
    "$ptxas" -v --warning-as-error --warn-on-spills --warn-on-local-memory-usage -arch="$target" -o /dev/null "$scratch/k.ptx" \
      2>&1 | grep -o 'Used [0-9]*' | sort -k2n | tail -n 1 | awk '{printf "%8s", $2}'
  done
  echo
done
