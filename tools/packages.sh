#!/usr/bin/env bash
# Installs what a fresh Debian 12, Ubuntu 22.04 or 24.04 lacks: packages of the distribution, those of LLVM 22 from
# apt.llvm.org where the distribution has none, and a .venv in the checkout unless the active
# Python already has torch or ALTGRAD_PYTHON names one, which is taken as it is. Quick when nothing is missing.
# Sourced or run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

packages=(cmake ninja-build ccache git python3 python3-dev python3-venv
  clang-22 libclang-rt-22-dev lld-22 liblld-22-dev llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  libzstd-dev zlib1g-dev libgtest-dev nlohmann-json3-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  if ! apt-cache show clang-22 >/dev/null 2>&1; then
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    $sudo apt-get install -y -qq --no-install-recommends ca-certificates curl >/dev/null
    curl -fsSL https://apt.llvm.org/llvm-snapshot.gpg.key | $sudo tee /etc/apt/trusted.gpg.d/apt.llvm.org.asc >/dev/null
    echo "deb https://apt.llvm.org/$codename/ llvm-toolchain-$codename-22 main" |
      $sudo tee /etc/apt/sources.list.d/llvm-22.list >/dev/null
    $sudo apt-get update -qq
  fi
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ -z "${ALTGRAD_PYTHON:-}" ]; then
  # torch 2.11 is what the tests compare with; the CUDA wheel also imports on a machine without a driver.
  needed="import torch, numpy, ml_dtypes, sklearn, matplotlib, pytest, expecttest, auditwheel
from importlib.util import find_spec
assert find_spec('lightning') and find_spec('transformers') and find_spec('accelerate') and find_spec('basedpyright')"
  if [ -x "$root/.venv/bin/python" ]; then
    python=$root/.venv/bin/python
  else
    python=$(command -v python3)
  fi
  if ! "$python" -c "$needed" 2>/dev/null; then
    if ! "$python" -c "import torch" 2>/dev/null; then
      echo "making .venv with torch (4.7 GB)"
      [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv"
      python=$root/.venv/bin/python
      "$python" -m pip install -q --disable-pip-version-check torch==2.11.0
    fi
    "$python" -m pip install -q --disable-pip-version-check \
      numpy ml_dtypes==0.6.0 scikit-learn matplotlib pytest expecttest auditwheel \
      lightning==2.6.6 transformers==5.23.0 accelerate==1.15.0 basedpyright==1.40.2 # 34 MB, and 75 MB for basedpyright, which brings Node
  fi
  ALTGRAD_PYTHON=$python
fi
export ALTGRAD_PYTHON
