#!/bin/sh
# Assembles a step for both GPUs; what spills is an error. Says where it takes more than 80 registers, or has more than
# STACK bytes (0) on the stack.
# usage: [STACK=8] strict.sh WORK "PTXAS..." REQUEST...
set -eu
work=$1 ptxas=$2
shift 2
for target in sm_80 sm_90; do
  altgrad-opt "$@" --target=$target --emit=ptx -o "$work.ptx"
  $ptxas -v -arch=$target -o "$work.cubin" "$work.ptx" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
  most=$(grep -o 'Used [0-9]*' "$work.log" | sort -k2n | tail -n 1 | cut -d' ' -f2)
  stack=$(grep -o '[0-9]* bytes stack frame' "$work.log" | sort -n | tail -n 1 | cut -d' ' -f1)
  [ "${stack:-0}" -le "${STACK:-0}" ] || { echo "$target: $* has $stack bytes on the stack"; exit 1; }
  [ "$most" -le 80 ] || { echo "$target: $* takes $most registers"; exit 1; }
done
