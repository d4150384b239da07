#!/usr/bin/env bash
# Installs trainers whose own code tests/trainers runs, at the versions of tests/trainers/requirements.txt, beside the Python
# that has torch, and runs their tests: tools/trainers.sh FOLDER [pytest's words]. torch itself and what lies beside it stay.
# torchtune wants an older torchao than the others, which is in a folder of its own. Needs a build in build/.
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n 2,4p "$0" | cut -c3-
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(realpath -m "$1")
python=${ALTGRAD_PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=$(command -v python3)
if [ ! -e "$folder/complete" ]; then
  "$python" -m venv --without-pip "$folder/env"
  site=$("$folder/env/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
  "$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))" >"$site/beside.pth"
  pip=("$python" -m pip --python "$folder/env/bin/python" install -q --disable-pip-version-check --no-deps --no-build-isolation)
  "${pip[@]}" wheel
  "${pip[@]}" -r "$root/tests/trainers/requirements.txt"
  "${pip[@]}" --target "$folder/older" torchao==0.10.0
  touch "$folder/complete"
fi
export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
  ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
tests=$root/tests/trainers
"$folder/env/bin/python" -m pytest -q -p no:cacheprovider "$tests"/test_{torchtitan,automodel,peft,deepspeed}.py "${@:2}"
PYTHONPATH=$folder/older:$PYTHONPATH "$folder/env/bin/python" -m pytest -q -p no:cacheprovider "$tests/test_torchtune.py" "${@:2}"
