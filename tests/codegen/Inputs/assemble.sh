#!/bin/sh
# Compiles every template for a target and assembles it; any warning is an error. Says which take more than 64 registers,
# and which have a number or two on the stack because of that: 16 bytes at most. Rules with columns may take 128
# registers, and have as much on the stack. Rules that load six numbers of an element, or five beside two sums, those with pow
# or atan2 of elements, and those that prepare a matrix beside a norm ask for three blocks on a multiprocessor, and may take 80.
# usage: assemble.sh TARGET STORAGE FLAGS TEMPLATES WORK PTXAS...
target=$1 storage=$2 flags=$3 templates=$4 work=$5
shift 5
count=0 bad=0
for rule in $(altgrad-opt --list-rules --rule-path="$templates"); do
  most=64
  case $rule in adahessian | adamatan2 | adan | dadaptadam | dion | marsshampoo | prodigy | soap) most=80 ;; esac
  grep -q ', column \|over column' "$templates/$rule.mlir" && most=128
  altgrad-opt --rule="$rule" --rule-path="$templates" --storage="$storage" $flags \
    --target="$target" --emit=ptx -o "$work.ptx" &&
    "$@" -v -arch="$target" "$work.ptx" -o "$work.cubin" >"$work.log" 2>&1 &&
    count=$((count + 1)) &&
    grep -o 'Used [0-9]*' "$work.log" | sort -k2n | tail -n 1 |
      while read -r _ n; do [ "$n" -le "$most" ] || echo "$target: $rule takes $n registers"; done &&
    continue
  stack=$(grep -o '[0-9]* bytes cumulative stack' "$work.log" | sort -n | tail -n 1 | cut -d' ' -f1)
  if [ "${stack:-17}" -le 16 ] && "$1" -arch="$target" "$work.ptx" -o "$work.cubin"; then
    count=$((count + 1))
    [ "$most" -gt 64 ] || echo "$target: $rule has $stack bytes on the stack"
    continue
  fi
  cat "$work.log"
  echo "$target: $rule with '$storage' is refused"
  bad=1
done
echo "$target: $count steps assembled"
exit $bad
