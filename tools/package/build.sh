#!/usr/bin/env bash
# Makes dist/altgrad-*.tar.gz and dist/altgrad-*.whl of a checkout that tools/quickstart.sh has built, and checks them as
# an upload would be. Its tools lie in build/package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=build/package
[ -x "$tools/bin/twine" ] || {
  python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check build twine auditwheel
}
rm -f dist/altgrad-*.tar.gz dist/altgrad-*.whl
"$tools/bin/python" -m build --sdist --wheel
"$tools/bin/twine" check --strict dist/altgrad-*
"$tools/bin/auditwheel" show dist/altgrad-*.whl
