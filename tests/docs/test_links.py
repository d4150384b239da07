"""Links between the pages lead somewhere: to files that exist and headings that are there, and back."""
import re
import subprocess

import pytest
from pages import ROOT, pages

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}
# Pages with a table of contents: all but the README, those of folders of tests, and decisions.
GUIDES = [name for name in PAGES if not name.endswith(("README.md", "Rationale.md", "Glossary.md"))]


def prose(page):
    """The text of a page without its code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: code[0] if re.search(r"\]\(", code[0]) is None else "", text)


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    found = []
    for heading in re.findall(r"^#+ (.*)", prose(page), flags=re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found


def links(page):
    """(target, anchor) of every link of a page that stays in the repository."""
    text = prose(page)
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^]]+\]: (\S+)", text, flags=re.M):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_every_link_leads_somewhere(page):
    broken = [f"{target.name}#{anchor}" for target, anchor in links(page)
              if not target.exists() or (anchor and anchor not in anchors(target))]
    assert not broken


@pytest.mark.parametrize("name", GUIDES)
def test_the_readme_leads_to_every_guide_and_back(name):
    """Or it leads to the page that lists the others of a folder `guide`."""
    page, readme = ROOT / name, ROOT / "README.md"
    begin = page.parents[1] / "Guide.md" if page.parent.name == "guide" else readme
    assert page in [target for target, _ in links(begin)] and begin in [target for target, _ in links(page)]
    assert begin in [target for target, _ in links(readme)] or begin == readme
    assert readme in [target for target, _ in links(page)]


@pytest.mark.parametrize("name", [name for name in PAGES if "/guide/" in name])
def test_a_page_of_one_subject_is_short(name):
    assert len(re.sub(r"<!-- generated.*?<!-- end -->", "", PAGES[name].read_text(), flags=re.S).splitlines()) <= 200


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_begins_with_its_contents(name):
    """Every heading of the second level is linked above the first of them."""
    page = ROOT / name
    top = prose(page).partition("\n## ")[0]
    listed = re.findall(r"\]\(#([^)]+)\)", top)
    headings = [anchor for anchor, level in zip(anchors(page), re.findall(r"^(#+) ", prose(page), flags=re.M)) if level == "##"]
    assert headings and [anchor for anchor in headings if anchor not in listed] == []


def cited(text):
    """The commits of this repository that a text names; those of others are written OTHER@COMMIT."""
    return [word for part in re.split(r"\n\n+|\n(?=\|)", text) if re.search(r"\bcommits?\b", part)
            for word in re.findall(r"(?<![\w@#/.])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w.])", part)]


def test_commits_that_pages_cite_are_in_the_history():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout != "false\n":
        pytest.skip("no clone with its history")
    commits = [(name, commit) for name, page in PAGES.items() for commit in cited(page.read_text())]
    assert len(commits) >= 5
    assert [found for found in commits if git("merge-base", "--is-ancestor", found[1], "HEAD").returncode] == []


def test_what_a_commit_is():
    text = "Of commit d331e9e and where\nsaid be8f2151, not `other@559b4477` or 0x7fffffff.\n\n7f7f8000\n| commit d331e9f |"
    assert cited(text) == ["d331e9e", "be8f2151", "d331e9f"]


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](absent) [d](https://example.org/absent) `[e](code)`\n")
    assert [anchor in anchors(page) if anchor else target.exists() for target, anchor in links(page)] == [True, False, False]


def test_a_paragraph_of_figures_is_a_table():
    """In the page of figures no paragraph has more than two numbers; names such as f32 and code are none."""
    text = prose(ROOT / "tools/Measured.md")
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    paragraphs = [part for part in re.split(r"\n\n+", text) if not part.lstrip().startswith(("|", "#", "-"))]
    count = {part: len(re.findall(r"(?<![\w.-])\d[\d.,]*(?: [MG] | × \d+)?", part)) for part in paragraphs}
    assert not [part for part, numbers in count.items() if numbers > 2]
