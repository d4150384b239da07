"""python -m altgrad doctor"""

import sys

from . import _doctor

if sys.argv[1:] != ["doctor"]:
    print("usage: python -m altgrad doctor   says what works here and what to do about the rest",
          file=sys.stderr)
    sys.exit(2)
sys.exit(_doctor.main())
