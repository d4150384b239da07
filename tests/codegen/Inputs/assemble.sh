#!/bin/sh
# Compiles every template for a target and assembles it; any warning is an error.
# usage: assemble.sh TARGET STORAGE TEMPLATES WORK PTXAS...
target=$1 storage=$2 templates=$3 work=$4
shift 4
count=0 bad=0
for rule in $(altgrad-opt --list-rules --rule-path="$templates"); do
  altgrad-opt --rule="$rule" --rule-path="$templates" --storage="$storage" --clip \
    --target="$target" --emit=ptx -o "$work.ptx" &&
    "$@" -arch="$target" "$work.ptx" -o "$work.cubin" &&
    count=$((count + 1)) && continue
  echo "$target: $rule with '$storage' is refused"
  bad=1
done
echo "$target: $count steps assembled"
exit $bad
