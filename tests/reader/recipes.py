"""The recipes of the pages: commands that change the reader's machine, in the order in which a reader comes to them.

They are the `sh reader` blocks. Reading begins with the README, and goes on with the pages in the order of its links.
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))
import pages  # noqa: E402

COMMANDS = "sh", "console"


@dataclass
class Recipe:
    where: str  # PAGE:LINE of its first command
    commands: list
    files: dict = field(default_factory=dict)  # of a project of the reader's own: name -> text


def read_in_order():
    """Every page, as a reader goes through them."""
    known = {str(page.relative_to(pages.ROOT)): page for page in pages.pages()}
    links = re.findall(r"\]\(([^)#\s]+\.md)", known["README.md"].read_text())
    return [known[name] for name in dict.fromkeys(["README.md", *links, *known]) if name in known]


def recipes():
    """Every recipe, in order."""
    return [found for page in read_in_order() for section in pages.sections(page) for found in of(section)]


def of(section):
    """The recipes of a section. One that has files of its own is a project, whose commands are one recipe."""
    page = section.page.relative_to(pages.ROOT)
    files = {block.value("title"): block.text for block in section.blocks if block.value("title")}
    found = [Recipe(f"{page}:{block.line}", block.lines, files) for block in section.blocks if "reader" in block.words.split()]
    return found


def others():
    """The sections with commands that leave nothing behind, as test_blocks.py names them."""
    return [f"{section.page.relative_to(pages.ROOT)}:{section.title}" for page in read_in_order()
            for section in pages.sections(page)
            if any(block.tag in COMMANDS and "reader" not in block.words.split() for block in section.blocks)]
