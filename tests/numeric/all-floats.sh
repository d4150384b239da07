#!/usr/bin/env bash
# Every float into every format of 8 bits and fewer, in both modes: the codec and the code
# compiled from it, 16 times 2^32 on each path: tests/numeric/all-floats.sh [threads] [name...]
# Needs a build in build/. A line for each; half an hour on two cores.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build
threads=${1:-$(nproc)}
shift || true
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <("$build/bin/altgrad-opt" --list-formats | awk '$2 <= 8 { print $1 }')
printf '%s\n' "${names[@]}" | xargs -P "$threads" -n 1 "$build/bin/format-exhaustive" 1
for device in cpu:v3 cpu:v4; do
  "$build/bin/format-generated" "$build/bin/altgrad-opt" $device 1 "$threads" "${names[@]}" || [ $? = 77 ]
done
