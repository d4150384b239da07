"""What tools/site.sh gives to MkDocs: every page of the navigation, and every public name."""
import re
import subprocess
import sys

import altgrad
import pages


def test_the_pages_of_the_site_are_put_together(tmp_path):
    subprocess.run([sys.executable, pages.ROOT / "tools/site/assemble.py", tmp_path], check=True)
    listed = re.findall(r": (\S+\.md)$", (tmp_path / "mkdocs.yml").read_text(), flags=re.M)
    assert not [name for name in listed if not (tmp_path / "docs" / name).exists()]
    for page in (tmp_path / "docs").rglob("*.md"):
        if page.suffixes == [".md"]:  # and no source
            assert not re.search(r"^<!--python|^```\w+ (fails|reader)", page.read_text(), flags=re.M), page
    guides = {str(page.relative_to(pages.ROOT)) for page in pages.pages()
              if not (page.parent.parts[-2:-1] == ("tests",) and page.name == "README.md")}
    assert guides == {name for name in listed if not name.startswith("api/")}
    for name, module in (("optim", altgrad.optim), ("functions", altgrad.ops)):
        named = re.findall(r"^::: altgrad\.\w+\.(\w+)$", (tmp_path / "docs/api" / f"{name}.md").read_text(), flags=re.M)
        assert set(named) == set(module.__all__)
