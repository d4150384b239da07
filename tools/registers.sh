#!/usr/bin/env bash
# The registers of the largest kernel of each stock step (a template in f32, clipped) on each GPU target: as ptxas counts
# them / as --emit=resources estimates them. The last line has the error over all kernels.
#   tools/registers.sh [STORAGE]      e.g. "param=bf16 master=f32"
set -euo pipefail
cd "$(dirname "$0")/.."
ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
[ -x "$ptxas" ] || { echo "no ptxas on this machine: registers are not counted"; exit 0; }
opt=build/bin/altgrad-opt
targets=(sm_80 sm_86 sm_89 sm_90 sm_90a)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '%-14s' rule
printf '%8s' "${targets[@]}"
echo
for rule in $($opt --list-rules); do
  printf '%-14s' "$rule"
  for target in "${targets[@]}"; do
    step=(--rule="$rule" --storage="${1:-}" --clip --target="$target")
    $opt "${step[@]}" --emit=ptx -o "$scratch/k.ptx"
    "$ptxas" -v --warning-as-error --warn-on-spills --warn-on-local-memory-usage -arch="$target" -o /dev/null "$scratch/k.ptx" 2>&1 |
      sed -n "s/.*entry function '\(.*\)' for.*/\1/p; s/.*Used \([0-9]*\) registers.*/\1/p" | paste - - | sort >"$scratch/used"
    $opt "${step[@]}" --emit=resources | sed 's/^\([^:]*\):.* \([0-9]*\) registers.*/\1 \2/' | sort >"$scratch/estimated"
    join "$scratch/used" "$scratch/estimated" | tee -a "$scratch/all" | sort -k2n | tail -n 1 | awk '{printf "%8s", $2 "/" $3}'
  done
  echo
done
awk '{e = $2 - $3; e = e < 0 ? -e : e; sum += e; if (e > most) most = e}
  END {printf "%d kernels, error %.1f on average, %d at most\n", NR, sum / NR, most}' "$scratch/all"
