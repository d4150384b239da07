"""Every tool in Python says in --help what it does, and what each option means."""

import re
import subprocess
import sys

import pages
import pytest

TOOLS = sorted(path.name for path in (pages.ROOT / "tools").glob("*.py"))


def said(*words):
    done = subprocess.run([sys.executable, *words, "--help"], cwd=pages.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_is_described(tool):
    text = said(f"tools/{tool}")
    assert len(text.split("\n\n")[1]) > 40  # what it does
    commands = re.search(r"^positional arguments:\n +\{(.*)\}", text, re.M)
    for page in [text, *(said(f"tools/{tool}", word) for word in (commands[1].split(",") if commands and "..." in text else ()))]:
        lines = page.split("\n")
        for line, after in zip(lines, lines[1:]):
            option = re.match(r"  (-\S.*)$", line)
            if option:
                assert "  " in option[1].strip() or after.startswith(" " * 10), f"{tool}: {line.strip()} is not described"
