#!/usr/bin/env bash
# Compares random specs in every execution for HOURS: tools/soak.sh 2 [--seed N] [--cases N] [--failures FOLDER]
# or proves formats on all 2^32 floats: tools/soak.sh floats [threads] [name...]
# or tries functions of elements on all 2^32 floats, those of two on 2^30 pairs: tools/soak.sh functions [name...]
# or trains MODELS random small models with every stock narrow class, for SECONDS at most, and fails where an update
# is more than twice float32's, or 2.5 times in 4 bits: tools/soak.sh narrow 500 36000
# or lets optimizers, scalers, files and C ABI calls live at random beside torch: tools/soak.sh lives MINUTES [--seed N]
# or compares random rules with units, blocks and tiles with NumPy: tools/soak.sh rules MINUTES [--seed N]
# or compares COUNT random rules over all geometries and storages with NumPy, and their bits on the CPU with those of PTX
# in the interpreter: tools/soak.sh geometries COUNT [--seed N]
# or lives each life twice, once through a file, in two groups, in another order of memory, to the same bits:
# tools/soak.sh pairs MINUTES [--seed N]
# or kills COUNT runs of two ranks at random moments, again and again, each of which goes on from its last checkpoint to
# the parameters of an undisturbed run: tools/soak.sh killed COUNT [SEED]
# or takes 30 steps of the CASEs in every layout of a cluster, on one to four ranks, with checkpoints from each into each, and
# fails where they differ from one process: tools/soak.sh meshes [CASE...]
# or makes rules of every class of pytorch_optimizer that can be one, beside which it steps the originals, and with --write
# puts what becomes of each into runtime/python/FromTorch.md: tools/soak.sh classes [NAME...] [--package FOLDER] [--write]
# or takes COUNT steps on two ranks with what altgrad.distributed and FSDP2 have, and fails where objects or memory grow or
# a tensor takes a slow way: tools/soak.sh steps 10000
# or runs all of tests/python, or WORDS of pytest's, with a GPU's kernels on the test driver, of which CI runs a part:
# tools/soak.sh gpus [80|90] [WORDS...]
# or puts COUNT random requests for all five GPU targets through ptxas: tools/soak.sh --ptxas 500
# Needs a build in build/. A failing spec is shrunk and left in tests/regression/, where it becomes a test.
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n 2,24p "$0" | cut -c3-
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "$1" = floats ]; then
  exec "$root/tests/numeric/all-floats.sh" "${@:2}"
fi
if [ "$1" = functions ]; then
  exec "$root/build/bin/functions" 1 "${@:2}"
fi
python=${ALTGRAD_PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3
if [ "$1" = narrow ]; then
  export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
  exec "$python" "$root/tests/python/storage/narrowmodels.py" "${2:-500}" "${3:-36000}"
fi
if [ "$1" = lives ] || [ "$1" = rules ] || [ "$1" = pairs ]; then
  export PYTHONPATH=${PYTHONPATH:-$root/runtime/python} ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
  [ "$1" = lives ] || set -- "$@" --kind "$1"
  exec "$python" "$root/tests/soak/lives.py" "${@:2}"
fi
if [ "$1" = geometries ]; then
  export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so} ALTGRAD_PTXINTERP=${ALTGRAD_PTXINTERP:-$root/build/tests/ptx/libptxinterp.so}
  bits=$(mktemp)
  trap 'rm -f "$bits"' EXIT
  "$python" "$root/tests/soak/geometries.py" "${2:-100}" "$bits" "${@:3}"
  ALTGRAD_STANDS_FOR_CUDA=cpu FAKE_CUDA_EAGER=1 FAKE_CUDA_HOST=1 FAKE_CUDA_CAPABILITY=90 LD_LIBRARY_PATH=$root/build/tests/cuda \
    PYTHONPATH=$root/tests/standin:$PYTHONPATH "$python" "$root/tests/soak/geometries.py" "${2:-100}" "$bits" "${@:3}" --same
  exit
fi
if [ "$1" = gpus ]; then
  shift
  export FAKE_CUDA_CAPABILITY=90
  case ${1:-} in 80 | 90) FAKE_CUDA_CAPABILITY=$1 && shift ;; esac
  export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt}
  export ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so} ALTGRAD_STANDS_FOR_CUDA=cpu FAKE_CUDA_EAGER=1 FAKE_CUDA_HOST=1
  export ALTGRAD_PTXINTERP=${ALTGRAD_PTXINTERP:-$root/build/tests/ptx/libptxinterp.so} LD_LIBRARY_PATH=$root/build/tests/cuda
  [ $# -gt 0 ] || set -- "$root/tests/python" --ignore="$root/tests/python/language" --ignore="$root/tests/python/track3"
  exec "$python" -m pytest -q -p no:cacheprovider "$@"
fi
if [ "$1" = classes ]; then
  export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
  exec "$python" "$root/tests/soak/classes.py" "${@:2}"
fi
if [ "$1" = meshes ]; then
  export PYTHONPATH=$root/runtime/python:$root/tests/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
  exec "$python" "$root/tests/python/layouts/proof.py" "${@:2}"
fi
if [ "$1" = killed ] || [ "$1" = steps ]; then
  [ "$1" = killed ] && script=killed || script=long
  export PYTHONPATH=$root/runtime/python ALTGRAD_OPT=${ALTGRAD_OPT:-$root/build/bin/altgrad-opt} \
    ALTGRAD_LIBRARY=${ALTGRAD_LIBRARY:-$root/build/lib/libaltgrad.so}
  exec "$python" "$root/tests/python/distributed/$script.py" "${@:2}"
fi
exec "$python" "$root/tests/differential/soak.py" "$@"
