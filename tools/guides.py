#!/usr/bin/env python3
"""Renews the parts of the guides that are generated from the program: its operations, formats and classes.

In a guide, everything between `<!-- generated: NAME -->` and `<!-- end -->` comes from the function NAME below. The
compiler is $ALTGRAD_OPT, else build/bin/altgrad-opt, else the one on PATH. Pages for Python and the gallery are renewed only
where torch is installed.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "bin" / "altgrad-opt"
COMPILER = os.environ.get("ALTGRAD_OPT") or (str(BUILT) if BUILT.exists() else shutil.which("altgrad-opt"))
GUIDES = ["templates/Language.md", "templates/Storage.md", "runtime/Guide.md", "codegen/Guide.md"]
if importlib.util.find_spec("torch"):
    GUIDES += ["README.md", "runtime/python/guide/Optimizers.md", "templates/Gallery.md"]


def ask(*options):
    """The lines that altgrad-opt prints."""
    return subprocess.run([COMPILER, *options], check=True, text=True, capture_output=True).stdout.splitlines()


def table(head, rows):
    """A table of Markdown; a | inside a cell is escaped."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def operations():
    """The operations that a rule may hold."""
    rows = (line.split("\t") for line in ask("--list-ops"))
    return table(["operation", "types", "meaning", "example"],
                 [[f"`{name.removeprefix('arith.')}`", types, meaning, f"`{example}`"]
                  for name, types, meaning, example in rows])


def formats():
    """The formats that have a name."""
    line = re.compile(r"(\S+) +(\d+) bits, (.*?), (\S+) to ([^,]+)(?:, )?(.*)")
    rows = [line.fullmatch(text).groups() for text in ask("--list-formats")]
    return table(["format", "bits", "kind", "smallest and largest magnitude", "special codes"],
                 [[f"`{name}`", bits, kind, f"{least} to {most}", special]
                  for name, bits, kind, least, most, special in rows])


def described(path, name):
    """The description of a definition in a .td file."""
    text = (ROOT / path).read_text()
    found = re.search(rf"def {name} : .*?let description = \[\{{\n(.*?)\n  \}}\];", text, re.S)
    return re.sub(r"^    ", "", found[1], flags=re.M)


def roles():
    """The roles of a rule's arguments."""
    return "\n".join(re.findall(r"^\|.*\|$", described("dialect/RuleOps.td", "Altgrad_RuleOp"), re.M))


def constraints():
    """What the verifier looks at in a rule."""
    items = re.findall(r"^- \((?:rule|name|body)_c\d+\) (.*?)[;.]$",
                       described("dialect/RuleOps.td", "Altgrad_RuleOp"), re.M | re.S)
    return "\n".join("- " + re.sub(r"\s+", " ", item) for item in items)


def functions():
    """The functions of altgrad.h, with what it includes of them, and the first sentence about each."""
    text = "".join((ROOT / "runtime/include/altgrad" / name).read_text() for name in ("altgrad.h", "codes.h"))
    rows = []
    for comment, name in re.findall(r"((?:^//.*\n)+)(?:^ALTGRAD_API [^;]*;\n)*?^ALTGRAD_API [^;]*?\b(altgrad_\w+)\(", text, re.M):
        words = " ".join(line.removeprefix("//").strip() for line in comment.splitlines())
        rows.append([f"`{name}`", re.match(r".*?[.:;](?= |$)", words)[0].rstrip(".:;")])
    return table(["function", "what it does"], rows)


def passes():
    """The passes in the order of the two files that define them."""
    rows, definition = [], r'def \w+ : (?:Altgrad_Code)?Pass<"([^"]+)".*?let summary = "([^"]+)"'
    for path in ("passes/Passes.td", "codegen/Passes.td"):
        rows += re.findall(definition, (ROOT / path).read_text(), re.S)
    return table(["pass", "what it does"], [[f"`--{flag}`", summary] for flag, summary in rows])


def classes():
    """{name: class} of the optimizers that have a template."""
    if not importlib.util.find_spec("altgrad"):
        sys.path.insert(0, str(ROOT / "runtime" / "python"))
    from altgrad import optim
    found = {name: getattr(optim, name) for name in sorted(optim.__all__, key=str.lower)}
    return {name: made for name, made in found.items() if isinstance(made, type) and getattr(made, "_template", None)}


def optimizers():
    """A row for each class: its template, its states by the storage line's word and the key in `state`, their bytes."""
    from altgrad._rule import find_rule
    rows = []
    for name, made in classes().items():
        if made._storage:
            continue  # a narrow form of another
        states = [f"`{word}` = `{key}`" + (f" with `{made._spelled_with()[word]}`" if word in made._only_with else "")
                  + " of each row" * (word in made._of_units) for word, key in made._keys.items()]
        for role, size in {"row": "of each row", "column": "of each column", "row_square": "of rows × rows",
                           "column_square": "of columns × columns"}.items():
            if keys := find_rule(made._template).declared(role):
                states.append(" and ".join(f"`{key}`" for key in keys) + f" {size}")
        rule = made._template
        known = find_rule(rule).declared("state")
        own = [word for word in made._keys if word in known and word not in made._only_with]
        rows.append([f"`{name}`", f"[{rule}](../../../templates/{rule}.mlir)", ", ".join(states),
                     str(4 * len(set(own) - set(made._of_units))) + (", of AdamW's parameters 8" if {*made._keys} - {*known} >= {"m", "v"} else "")])
    return table(["class", "rule", "states: word = key", "bytes"], rows)


def templates():
    """(name, title, address of the paper or "", lines of the rule) of each template."""
    for path in sorted((ROOT / "templates").glob("*.mlir")):
        text = path.read_text()
        title, *head = [line[3:].rstrip() for line in re.match(r"(?://.*\n)*", text)[0].splitlines()]
        address = next((line for line in head if line.startswith("https://")), "")
        short = re.search("^rule ", text, re.MULTILINE)
        lines = text[short.start():].splitlines() if short else [line for line in head if line.startswith("  ")]
        yield path.stem, title.rstrip(".:"), address, lines


def gallery():
    """A row for each template: its classes, how long it is, what a step of it moves in float32, and where it is from."""
    made, rows = classes(), []
    for rule, title, address, lines in templates():
        report = re.search(r"(\d+) bytes per element .*?(\d+) launches", ask(f"--rule={rule}", "--emit=report")[0])
        named = ", ".join(f"`{name}`" for name, of in made.items() if of._template == rule)
        paper = (re.search(r"\(([^()]*\d{4})\)", title) or ["", "source"])[1]
        rows.append([f"[{rule}]({rule}.mlir)", named or "–", str(len(lines)), report[1], report[2],
                     f"[{paper}]({address})" if address else "–"])
    return table(["template", "classes", "lines", "bytes", "launches", "from"], rows)


def formulas():
    """The lines of each template in short form, or the formula at the top of one in the long form."""
    parts = []
    for _, title, _, lines in templates():
        heads = [re.sub(r"^rule (\w+).*", r"rule \1:", line) for line in lines]
        several = sum(line.startswith(("rule ", "entry ")) for line in heads) > 1
        parts.append("\n".join([title, *[line for line in heads if re.match(r"  \S" + r"|rule |entry " * several, line)]]))
    return "```text\n" + "\n\n".join(parts) + "\n```"


def memory():
    """The table of tools/memory.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    import memory as table_of
    found = table_of.rows()
    return table(table_of.HEAD, [[words, *[f"{value:.1f}" for value in values]] for words, *values in found])


def renewed(text):
    """A guide with every generated part as it should be."""
    return re.sub(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
                  lambda found: f"{found[1]}\n{globals()[found[2]]()}\n\n{found[3]}", text, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a guide is stale")
    parser.add_argument("page", nargs="*", help="guides to renew, as paths in the repository (default: all)")
    options = parser.parse_args()
    check, stale = options.check, []
    for name in options.page or GUIDES:
        path = ROOT / name
        before = path.read_text()
        after = renewed(before)
        if before != after and check:
            stale.append(name)
        elif before != after:
            path.write_text(after)
    if stale:
        sys.exit(f"stale: {' '.join(stale)}; run tools/guides.py")


if __name__ == "__main__":
    main()
