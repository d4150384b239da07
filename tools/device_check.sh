#!/usr/bin/env bash
# A GPU day: "pack" makes build/device/altgrad-device.tar.xz where the compiler is; "run" checks and measures on the GPU
# of this machine, in the checkout or in the unpacked archive, with torch and no network; in 9 minutes a table and
# build/device/device_check.json, which grows part by part: "run --resume" goes on, "run --only facts" does a part alone.
# Without a word: what is possible here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
what=${1:-all}
[ $# -eq 0 ] || shift

python=${ALTGRAD_PYTHON:-}
for candidate in "$root/.venv/bin/python" "$(command -v python3 || true)"; do
  [ -n "$python" ] || ! [ -x "$candidate" ] || ! "$candidate" -c 'import torch' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || { echo "not run on a GPU: no Python with torch"; exit 77; }

case $what in
pack | run) exec "$python" "$root/tools/device_check.py" "$what" "$@" ;;
all)
  if [ -x "$root/build/bin/altgrad-opt" ]; then
    "$python" "$root/tools/device_check.py" pack
    echo "on the GPU machine: tar xf altgrad-device.tar.xz && altgrad-device/tools/device_check.sh run"
  fi
  exec "$python" "$root/tools/device_check.py" run "$@"
  ;;
*)
  echo "usage: tools/device_check.sh [pack|run] [options of tools/device_check.py]" >&2
  exit 2
  ;;
esac
