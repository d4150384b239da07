#!/usr/bin/env bash
# Compares random specs in every execution for HOURS: tools/soak.sh 2 [--seed N] [--cases N] [--failures FOLDER]
# or proves formats on all 2^32 floats: tools/soak.sh floats [threads] [name...]
# Needs a build in build/. A failing spec is shrunk and left in tests/regression/, where it becomes a test.
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n 2,4p "$0" | cut -c3-
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "$1" = floats ]; then
  exec "$root/tests/numeric/all-floats.sh" "${@:2}"
fi
python=${ALTGRAD_PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3
exec "$python" "$root/tests/differential/soak.py" "$@"
