"""Reads the code blocks of the guides. `test_blocks.py` runs them; this comment says how a page is written.

A page is a .md file of the repository. A section begins at `## ` and ends before the next one; the text before the
first is a section, too. A section is one test. Its blocks run in order, in a folder of their own in which every
top-level entry of the checkout stands as a link, so that commands are written as from the root of the checkout.

    python    Runs in the namespace of the section. `torch`, `altgrad`, `model` (64 inputs, 10 classes), `inputs`,
              `targets` and `loss` (not yet gone backward) are there already.
    diff      Python before and after: the lines without `+` run, then the lines without `-`.
    sh        Runs with `bash -euo pipefail`. `altgrad-opt` and `python` are on PATH.
    console   `$ ` begins a command (a line that ends in \\ goes on in the next); the lines under it are what it prints.
              A command with no lines under it may print what it likes.
    mlir      Must be taken by altgrad-opt. `mlir in-rule` is part of the body of a rule, which has
              param %w, grad %g, state %m, state %v (f32), hyper %lr, %beta, %eps (f64) and step %t (i64).
    rule      The same of the short form: `rule in-rule` is lines of a rule with param w, grad g, state m, v, hyper-parameters
              lr, beta, eps and step t.
    c, cpp    All blocks of a section are one program. With a `main` it is linked with the runtime and run,
              without one only its syntax is checked. The C++ of a page is compiled once, each section in a namespace
              of its own and all #includes before: torch's headers cost ten seconds.
    output    What the python, sh or mlir block before it prints. `...` stands for anything, here and under `console`.
    text      A picture or a grammar. It is not run.

Words after the tag:

    title="NAME"   The block is a file of that name in the section's folder. A later block of the section must name it.
                   Any tag may have a title (`cmake` must).
    needs="NAMES"  The block runs where these Python packages are, commas between them, and nowhere else.
    fails          The block must fail, and an `output` block with the message must follow.
    reader         A recipe, which changes the reader's machine: tests/reader runs it, behind all that come before it.

A comment `<!--python` (or any tag above) on a line of its own begins a block that a reader does not see: what a
fragment needs to run. It ends at `-->`. Any other tag, and none, is an error.
"""
import importlib.util
import pathlib
import re
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = (".github", "dialect", "passes", "codegen", "runtime", "templates", "tests", "tools")
TAGS = ("python", "diff", "sh", "console", "mlir", "rule", "c", "cpp", "cmake", "output", "text")
WORDS = ("fails", "in-rule", "reader")


@dataclass
class Block:
    tag: str
    words: str
    line: int  # of its first line of code, from 1
    lines: list = field(default_factory=list)

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def value(self, key):
        found = re.search(rf'\b{key}=(?:"([^"]*)"|(\S+))', self.words)
        return found and (found[1] or found[2])


    def runs_here(self):
        """Whether the packages are there that it needs."""
        return all(importlib.util.find_spec(name) for name in (self.value("needs") or "").split(",") if name)


@dataclass
class Section:
    page: pathlib.Path
    title: str
    line: int
    blocks: list = field(default_factory=list)


def pages():
    """Every .md file of the repository."""
    return [ROOT / "README.md", *sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]


def sections(page):
    """The sections of a page; headings inside of code are none."""
    found, block, end = [Section(page, page.stem, 1)], None, ""
    for number, line in enumerate(page.read_text().split("\n"), 1):
        if block is not None:
            if line.strip() == end:
                block = None
            else:
                block.lines.append(line.removeprefix(indent))
        elif fence := re.match(r"( *)```([\w-]*)(.*)", line) or re.match(r"( *)<!--([a-z]+)(.*)", line):
            hidden = "<!--" in line
            if hidden and (fence[2] not in TAGS or "-->" in line):
                continue
            indent, end = fence[1], "-->" if hidden else "```"
            block = Block(fence[2], fence[3].strip(), number + 1)
            found[-1].blocks.append(block)
        elif line.startswith("## "):
            found.append(Section(page, line[3:].strip(), number))
    return found


def mistakes(section):
    """What a section's blocks do that the conventions above do not know, a line each."""
    blocks = section.blocks
    for place, block in enumerate(blocks):
        where = f"{section.page.relative_to(ROOT)}:{block.line}"
        rest = re.sub(r'\b(title|needs)=("[^"]*"|\S+)', "", block.words).split()
        title, later = block.value("title"), "".join(other.text for other in blocks[place + 1:])
        if block.tag not in TAGS:
            yield f"{where}: a block tagged '{block.tag}'; there are {', '.join(TAGS)}"
        elif unknown := [word for word in rest if word not in WORDS]:
            yield f"{where}: no block has the word '{unknown[0]}'"
        if "reader" in rest and block.tag != "sh":
            yield f"{where}: a recipe is tagged sh"
        if block.tag == "cmake" and not title:
            yield f"{where}: a cmake block has a title"
        if title and title not in later:
            yield f"{where}: no later block of this section uses {title}"
        followed = place + 1 < len(blocks) and blocks[place + 1].tag == "output"
        if "fails" in rest and not followed:
            yield f"{where}: an output block with the message follows what fails"
        if block.tag == "output" and (not place or blocks[place - 1].tag not in ("python", "sh", "mlir", "rule")):
            yield f"{where}: output of nothing"
