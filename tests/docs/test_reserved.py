"""templates/Language.md names every word that no state or hyper-parameter of a rule can have."""
import re
import subprocess

import pages
import running

from altgrad.optim import _from_rule


def words(reason):
    """The names in the row of the table that has this reason."""
    lines = (pages.ROOT / "templates/Language.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith("|") and reason in line)
    return set(re.findall(r"`(\w+)`", row.split("|")[1]))


def test_words_that_python_reserves():
    assert words("no hyper-parameter may") == _from_rule.TAKEN - {"self"}


def test_words_that_the_storage_line_reserves():
    listed = subprocess.run([running.OPT, "--list-rules=verbose"], check=True, text=True, capture_output=True).stdout
    adagrad = re.search(r"^adagrad .*?^  states +(.*?)$.*?^  storage +(.*?)$", listed, re.M | re.S)
    own = set(adagrad[1].split()) | {"step"}
    assert words("no state may have these names") == set(adagrad[2].split()) - own
