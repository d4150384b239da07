"""templates/Language.md has every function of the short form."""
import re
import subprocess

import pages
import running


def test_the_table_has_what_the_compiler_lists(tmp_path):
    (tmp_path / "mine.mlir").write_text("rule mine(param w, grad g)\n  w = nothing_like_it(w)\n")
    said = subprocess.run([running.OPT, f"--rule={tmp_path}/mine.mlir"], text=True, capture_output=True).stderr
    known = re.search(r"there are ([\w, ]+)$", said, re.M)[1].split(", ")
    page = (pages.ROOT / "templates/Language.md").read_text()
    rows = re.findall(r"^\|([^|]*)\|", page[page.index("## Functions"):page.index("## Options")], re.M)
    assert sorted(set(re.findall(r"`(\w+)[(`]", " ".join(rows)))) == sorted(known)
