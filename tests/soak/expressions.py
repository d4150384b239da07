#!/usr/bin/env python3
"""Random formulas in Python and in short text become the same operations: tests/soak/expressions.py 2000.

A hundred rules are compiled at a time; the first pair that differs is printed.
"""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "language"))
from test_short_text import operations, rules  # noqa: E402


def main(count):
    long, short = rules(count)
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, count, 100):
            made = [operations(texts[first:first + 100], Path(folder) / f"{name}.mlir") for name, texts in (("long", long), ("short", short))]
            for text, a, b in zip(short[first:], *made):
                if a != b:
                    sys.exit(f"{text}\n{a}\n{b}")
    print(f"{count} rules are the same in both forms")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
