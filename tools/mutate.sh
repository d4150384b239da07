#!/usr/bin/env bash
# Seeds faults in emitted PTX and in the sources of passes, code generation and templates, and tells which test notices.
#   tools/mutate.sh [ptx] [source] [--seconds S] [--kinds A,B] [--sample N] [--only NAME]...
# Needs a build in build/; sources are patched in a copy, build-mutate/. Interrupted, the same command goes on where it was.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${ALTGRAD_PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3
exec nice -n 15 "$python" "$root/tests/mutate/mutate.py" "$@"
