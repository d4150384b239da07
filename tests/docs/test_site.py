"""What tools/site.sh gives to MkDocs: every page of the navigation, and every public name."""
import ast
import inspect
import re
import shutil
import subprocess
import sys

import altgrad.distributed
import pages
import pytest

sys.path.insert(0, str(pages.ROOT / "tools/site"))
import browser  # noqa: E402


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
    listed = {"optim": [altgrad.optim], "distributed": [altgrad.distributed], "functions": [altgrad.ops, altgrad.quant, altgrad.matrices]}
    for name, modules in listed.items():
        named = re.findall(r"^::: altgrad\.[\w.]+\.(\w+)$", (tmp_path / "docs/api" / f"{name}.md").read_text(), flags=re.M)
        assert sorted(named) == sorted(name for module in modules for name in module.__all__)


def test_the_reference_shows_the_keywords_and_arguments_that_help_shows(tmp_path):
    subprocess.run([sys.executable, pages.ROOT / "tools/site/assemble.py", tmp_path], check=True)
    copy = {node.name: node for path in (tmp_path / "package/altgrad/optim").glob("*.py")
            for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
    for name in ("AdamW", "Muon", "Lion", "AdamW8bit"):
        shown = list(inspect.signature(getattr(altgrad.optim, name)).parameters)
        described = re.findall(r"^    (\w+): ", ast.get_docstring(copy[name]).partition("Args:\n")[2], flags=re.M)
        assert {"lr", "betas", "storage", "max_grad_norm"} <= set(described)
        assert [one for one in shown if one not in described and one != "params"] == []
    init, = [item for item in copy["AdamW"].body if getattr(item, "name", "") == "__init__"]
    assert {of.arg for of in init.args.args + init.args.kwonlyargs} - {"self"} == set(inspect.signature(altgrad.optim.AdamW).parameters)


@pytest.fixture(scope="module")
def built():
    """What tools/site.sh prints."""
    done = subprocess.run([pages.ROOT / "tools/site.sh"], text=True, capture_output=True)
    if "No matching distribution" in done.stderr or "Temporary failure in name resolution" in done.stderr:
        pytest.skip("pip cannot get MkDocs")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def chromium():
    if not shutil.which("chromium") and not shutil.which("chromium-browser"):
        pytest.skip("there is no chromium")


def test_the_site_builds_without_a_warning(built):
    assert int(re.search(r"index.html: (\d+) pages", built)[1]) > 50


@pytest.mark.parametrize("width", browser.WIDTHS)
@pytest.mark.parametrize("page", ["index", "runtime/python/guide/Muon", "tools/Measured", "dialect/Glossary", "api/optim"])
def test_nothing_of_a_page_is_cut(built, chromium, page, width):
    address = browser.serve(pages.ROOT / "build/site")
    assert browser.find_cut(address, f"{page}.html", width) == []


def test_what_is_cut_is_found(chromium, tmp_path):
    """Hidden overflow is no scrolling, and a table that scrolls is one that a desk cuts."""
    inside = '<p style="width: 1500px">wide</p>'
    (tmp_path / "page.html").write_text(f'<body style="overflow-x: hidden"><article><p>fits</p>{inside}'
                                        f'<div class="md-typeset__scrollwrap" style="overflow-x: auto">{inside}</div></article>')
    address = browser.serve(tmp_path)
    assert [browser.find_cut(address, "page.html", width) for width in (390, 1280)] == [["P wide"], ["TABLE wide", "P wide"]]
