#!/usr/bin/env bash
# Builds the guides and the docstrings as a site with search: build/site/index.html.
#
#   tools/site.sh              builds it; a broken link or anchor is an error
#   tools/site.sh pictures     and draws its pages with Chromium, 390 and 1280 pixels wide, light and dark, into
#                              build/site-pictures/; what is cut is an error; names such as `index tools-Measured` draw
#                              these alone
#
# `python3 -m http.server -d build/site` shows it: search works over HTTP alone.
# MkDocs and its kin go into a venv of their own (build/site-venv, 60 MB); the Python of the project stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/site-venv
python=$venv/bin/python
packages=(mkdocs==1.6.1 mkdocs-material==9.8.2 'mkdocstrings[python]==1.0.8' mkdocstrings-python==2.0.11 ruff)
if ! "$python" -c "import mkdocs, material, mkdocstrings_handlers.python" 2>/dev/null; then
  echo "making $venv with MkDocs"
  mkdir -p build
  python3 -m venv "$venv"
  "$python" -m pip install -q --disable-pip-version-check "${packages[@]}"
fi
"$python" tools/site/assemble.py build/site-pages
log=$(NO_MKDOCS_2_WARNING=true "$python" -m mkdocs build --strict --config-file build/site-pages/mkdocs.yml \
  --site-dir "$PWD/build/site" 2>&1) || { grep -v '^INFO\|^  - ' <<<"$log" >&2; exit 1; }
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages"
if [ "${1:-}" = pictures ]; then
  "$python" tools/site/browser.py build/site build/site-pictures "${@:2}"
fi
