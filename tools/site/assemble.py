"""Puts the pages of the site into a folder: assemble.py FOLDER.

The guides are taken as they are, but for three things: hidden code and words for the tests behind the tags of code are
left out, and a link to a source file leads to a page that shows it. A page that a guide links to is there, too, outside
of the navigation. The reference is a page of names for mkdocstrings.
"""
import pathlib
import re
import shutil
import sys

from reference import Reference, completed

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
TEXT = {"": "text", ".py": "python", ".cpp": "cpp", ".h": "cpp", ".c": "c", ".sh": "bash", ".mlir": "text", ".td": "text",
        ".test": "text", ".json": "json", ".txt": "text"}


def pages():
    """The pages in the navigation, without those that mkdocstrings fills."""
    return re.findall(r": (\S+\.md)$", (HERE / "mkdocs.yml").read_text(), flags=re.M)


# page of the reference: (its title, a page of the guide, modules)
REFERENCE = {
    "optim": ("altgrad.optim", "guide/Optimizers.md", "altgrad.optim"),
    "amp": ("altgrad.amp", "guide/MixedPrecision.md", "altgrad.amp"),
    "lightning": ("altgrad.amp.lightning", "guide/Trainers.md", "altgrad.amp.lightning"),
    "distributed": ("altgrad.distributed", "guide/Zero2.md", "altgrad.distributed"),
    "functions": ("Functions of gradients, tensors and matrices", "guide/Functions.md", "altgrad.ops", "altgrad.quant",
                  "altgrad.matrices"),
}
HOMES = {"altgrad.optim.Storage": "altgrad._storage.line.Storage"}


class Site:
    """The folder, and the sources that its pages show."""

    def __init__(self, folder):
        self.docs, self.shown, self.pages = folder / "docs", set(), pages()

    def write(self, name, text):
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, page, found):
        """A link of a page as it is on the site."""
        text, target = found[1], found[2]
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return found[0]
        file = (ROOT / page).parent.joinpath(path).resolve()
        if path.endswith(".md"):
            if file.is_file() and (linked := str(file.relative_to(ROOT))) not in self.pages:
                self.pages.append(linked)
            return found[0]
        if file.is_dir():  # which the site does not show
            return text[1:-1]
        if not file.is_file():
            return found[0]
        name = file.relative_to(ROOT)
        if file.suffix in TEXT:
            self.shown.add(name)
            return f"{text}({path}.md)"
        (self.docs / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, self.docs / name)
        return found[0]

    def page(self, name):
        text = re.sub(r"^<!--[a-z]+[^\n>]*\n.*?^-->\n", "", (ROOT / name).read_text(), flags=re.M | re.S)
        parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
        parts[::2] = [re.sub(r"(\[[^][]*\])\(([^)\s]+)\)", lambda found: self.link(name, found), part) for part in parts[::2]]
        parts[1::2] = [re.sub(r"\A( *```)([\w-]*)([^\n]*)", fence, part) for part in parts[1::2]]
        self.write(name, "".join(parts))

    def sources(self):
        for name in self.shown:
            code = (ROOT / name).read_text().rstrip("\n")
            self.write(f"{name}.md", f"# {name}\n\n````{TEXT[name.suffix]}\n{code}\n````\n")

    def reference(self):
        for page, (title, guide, *modules) in REFERENCE.items():
            names = [f"{module}.{name}" for module in modules for name in exported(module)]
            entries = "\n\n".join(f"::: {HOMES.get(name, name)}" for name in names)
            self.write(f"api/{page}.md", f"# {title}\n\nMade from the docstrings. [Guide](../runtime/python/{guide})\n\n{entries}\n")


def fence(found):
    """The head of a block of code without the words that are for the tests."""
    title = re.search(r'title="[^"]*"', found[3])
    return f"{found[1]}{ {'output': 'text', 'mlir': 'text'}.get(found[2], found[2])}{' ' + title[0] if title else ''}"


def listed_in(text):
    listed = re.search(r"__all__ = \[(.*?)\]", text, flags=re.S)
    return re.findall(r'"(\w+)"', listed[1]) if listed else []


def exported(module):
    """The public names that a package's __init__ imports or lists, itself or in modules of its own, or a module's classes."""
    place = ROOT / "runtime/python" / module.replace(".", "/")
    if not place.is_dir():
        return re.findall(r"^class ([A-Z]\w+)", place.with_suffix(".py").read_text(), flags=re.M)
    text = (place / "__init__.py").read_text()
    if listed := listed_in(text):
        modules = re.findall(r"^__all__ \+= (\w+)\.__all__", text, flags=re.M)
        more = [name for one in modules for name in listed_in((place / f"{one}.py").read_text())]
        return sorted([*listed, *more], key=str.lower)
    names = [name for line in re.findall(r"^from \.\S+ import \(?([^)]*?)\)?$", text, flags=re.M | re.S)
             for name in re.findall(r"\w+", line)]
    return sorted({name for name in names if not name.startswith("_")}, key=str.lower)


def main(folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    for name in site.pages:  # which grows by what they link to
        site.page(name)
    site.sources()
    site.reference()
    shutil.copy(HERE / "site.css", site.docs)
    text = (HERE / "mkdocs.yml").read_text()
    (folder / "mkdocs.yml").write_text(re.sub(r": (api/\w+)$", r": \1.md", text, flags=re.M))
    reference = Reference()
    for path in (ROOT / "runtime/python/altgrad").rglob("*.py"):
        copy = folder / "package" / path.relative_to(ROOT / "runtime/python")
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = completed(reference, path.read_text()) if path.parent.name == "optim" else path.read_text()
        # What mkdocstrings shows as code is called Examples.
        copy.write_text(re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.M))


if __name__ == "__main__":
    main(*sys.argv[1:])
