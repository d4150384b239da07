"""python -m altgrad doctor"""

import sys

from . import __version__, _doctor

_USAGE = """usage: python -m altgrad doctor      says what works here and what to do about the rest
       python -m altgrad --version   prints the version"""

match sys.argv[1:]:
    case ["doctor"]:
        sys.exit(_doctor.main())
    case ["--version"]:
        print(f"altgrad {__version__}")
    case ["--help" | "-h"]:
        print(_USAGE)
    case _:
        print(_USAGE, file=sys.stderr)
        sys.exit(2)
