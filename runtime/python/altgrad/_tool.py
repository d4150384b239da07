"""The command altgrad-opt: becomes the program of the package, or that of the checkout."""

import os
import sys

from ._library import own_compiler


def main():
    program = own_compiler()
    if program is None:
        print("altgrad-opt: error: this package has no compiler: install altgrad's wheel, or build "
              "the checkout with tools/quickstart.sh", file=sys.stderr)
        return 1
    os.execv(program, ["altgrad-opt", *sys.argv[1:]])
