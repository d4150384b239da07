#!/usr/bin/env bash
# Installs what is missing, builds, runs every test, and closes with ctest's line.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
tools/build.sh | tail -n 1
# Tests that measure nothing may share the cores.
ctest --test-dir build --output-on-failure --timeout 900 -j "$(nproc)"
