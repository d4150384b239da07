#!/usr/bin/env bash
# The house rules that a machine can check: top level, file lengths, includes one way, nothing unfinished, CHECK words
# spelt right.
set -u
cd "$(dirname "$0")/.."
bad=0
say() { printf '%s\n' "$*"; bad=1; }
files=$(git ls-files 2>/dev/null) || files=$(find . -type f -not -path './build*' -not -path './.*' | sed 's|^\./||')
allowed='^(CMakeLists\.txt|README\.md|LICENSE|pyproject\.toml|dialect|passes|codegen|runtime|templates|tests|tools|\..*)$'
for name in $(cut -d/ -f1 <<<"$files" | sort -u); do
  [[ $name =~ $allowed ]] || say "top level: $name does not belong there"
done
while read -r file; do
  case $file in *.cpp|*.h|*.td|*.def|*.py|*.mlir|*.cmake|*.sh|*.c) ;; *) continue ;; esac
  [ -f "$file" ] || continue
  lines=$(wc -l <"$file")
  [ "$lines" -le 600 ] || say "$file: $lines lines, at most 600"
done <<<"$files"
LC_ALL=C.UTF-8 grep -nE '^.{121,}' $(grep -E '^(dialect|passes|codegen|runtime)/.*\.(cpp|h|def)$' <<<"$files" | xargs ls 2>/dev/null) &&
  say "lines of more than 120 characters: clang-format breaks them"
# A folder includes itself and those that stand in front of it, no others. A file that does not is named in `against`
# until it does. The runtime writes its folders without "runtime/".
order='dialect dialect/builders dialect/frontend passes passes/analysis passes/phases codegen codegen/abi codegen/numerics codegen/common
  codegen/gpu codegen/x86 codegen/emit codegen/driver
  runtime runtime/files runtime/bundle runtime/compile runtime/executor runtime/matrix runtime/host runtime/cuda runtime/plan
  runtime/core runtime/torch/tensors runtime/torch/table runtime/torch/ops runtime/torch/optim runtime/torch/amp'
against='runtime/torch/optim/Binding.h'
wrong=$({
  grep -HoE '^#include "(dialect|passes|codegen)/[^"]*' $(grep -E '^(dialect|passes|codegen)/.*\.(h|cpp)$' <<<"$files" | xargs -r ls 2>/dev/null)
  grep -HoE '^#include "[a-z/]*/[^"]*' $(grep -E '^runtime/[a-z]*/.*\.(h|cpp)$' <<<"$files" | xargs -r ls 2>/dev/null) |
    grep -v 'include "altgrad/' | sed -E 's#^(runtime/torch/.*include ")(tensors|table|ops|optim|amp)/#\1torch/\2/#; s#include "#include "runtime/#'
} | awk -F '[:"]' -v order="$(echo $order)" -v against="$against" '
    function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
    BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) place[names[i]] = i
            n = split(against, names, " "); for (i = 1; i <= n; i++) known[names[i]] = 1 }
    !(folder($1) in place) { print folder($1) ": a folder that has no place in the order of includes"; next }
    place[folder($3)] > place[folder($1)] { if ($1 in known) seen[$1] = 1; else print $1 ": includes " $3 ", which stands behind it" }
    END { for (file in known) if (!(file in seen)) print file ": includes one way now; take it off the list" }')
[ -z "$wrong" ] || say "$wrong"
[ "$(wc -l <dialect/Rationale.md)" -le 450 ] || say "dialect/Rationale.md: more than 450 lines: measurements and history belong elsewhere"
grep -nE 'TODO|FIXME|\bXXX\b' $(grep -E '^(dialect|passes|codegen|runtime|templates|tools)/' <<<"$files" | grep -vE '\.md$') && say "unfinished by its own word"
grep -rnE '^ *(//|;|#) *[A-Z0-9_-]*CHEC?K?K-?[A-Z]*[^-A-Z:{]*:' tests --include=*.mlir --include=*.test |
  grep -vE '(//|;|#) *[A-Z0-9_-]+(-(NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-[0-9]+))?(\{LITERAL\})?:' && say "misspelt CHECK"
grep -rn 'testing::TempDir()' tests --include=*.cpp && say "one folder for all tests that run side by side; c10::make_tempdir or Folder.h makes one for each"
for cited in $(grep -hoE '\b[A-Za-z_-]+\.md\b' $files | sort -u); do
  grep -qE "(^|/)$cited$" <<<"$files" || say "$cited is cited and not in the repository"
done
for cited in $(grep -hoE '\b(dialect|passes|codegen|runtime)/[A-Za-z0-9_/]+\.(cpp|h|td|py)(\.inc)?\b' $files | grep -v '\.inc$' | sort -u); do
  grep -qE "(^|/)$cited$" <<<"$files" || say "$cited is cited and not in the repository"
done
grep -rnE '(^|[^_])getenv\(' runtime --include=*.cpp --include=*.h && say "secure_getenv: a variable may name what is loaded"
# pytest imports every test of a run under the name of its file.
twice=$(grep -E '^tests/python/.*/test_[a-z0-9_]*\.py$' <<<"$files" | xargs ls 2>/dev/null | sed 's|.*/||' | sort | uniq -d)
[ -z "$twice" ] || say "two files of tests/python have one name: $twice"
python3 tests/guards.py || bad=1
[ $bad = 0 ] && echo "the house is in order"
exit $bad
