"""Optimizers' classes as the reference shows them: with the keywords that they share, and every argument described.

At run time altgrad.optim does the same of signatures and docstrings (optim/_keywords.py and optim/_describe.py); the site
reads sources and runs none of altgrad.
"""
import ast
import importlib.util
import pathlib

OPTIM = pathlib.Path(__file__).resolve().parents[2] / "runtime/python/altgrad/optim"


def load_describe():
    """optim/_describe.py by itself, which needs no torch."""
    spec = importlib.util.spec_from_file_location("describe", OPTIM / "_describe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reference:
    """The classes of altgrad/optim by name, and the keywords in Shared and OfTorch."""

    def __init__(self):
        self.describe, self.classes = load_describe(), {}
        trees = {path: ast.parse(path.read_text()) for path in sorted(OPTIM.glob("*.py"))}
        for tree in trees.values():
            self.classes |= {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        made = next(node.value for node in trees[OPTIM / "_keywords.py"].body
                    if isinstance(node, ast.Assign) and node.targets[0].id == "DEFAULTS")
        self.defaults = {word.arg: word.value for word in made.keywords}

    def chain(self, name):
        """The classes of this package from one up through its bases, each base after the class that names it."""
        found, waiting = [], [name]
        while waiting:
            if (node := self.classes.get(waiting.pop(0))) and node not in found:
                found.append(node)
                waiting = [base.id for base in node.bases if isinstance(base, ast.Name)] + waiting
        return found

    def annotations(self, name):
        """{keyword: type} of Shared or OfTorch."""
        return {item.target.id: item.annotation for node in reversed(self.chain(name)) for item in node.body
                if isinstance(item, ast.AnnAssign)}

    def complete(self, tree):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(own.name == "Optimizer" for own in self.chain(node.name)):
                self.complete_class(node)
        return tree

    def complete_class(self, node):
        init = next((item for own in self.chain(node.name) for item in own.body
                     if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
        if init is None or not ast.get_docstring(node):
            return
        self.spell_out(own := next((item for item in node.body if item is init or getattr(item, "name", "") == "__init__"), None))
        names = [of.arg for of in (own or init).args.args + (own or init).args.kwonlyargs if of.arg != "self"]
        if own is None and init.args.kwarg:
            names += [name for name in self.annotations(init.args.kwarg.annotation.slice.id) if name not in names]
        node.body[0].value.value = self.docstring(node, names)

    def spell_out(self, init):
        """Puts the shared keywords in place of **shared."""
        shared = init.args.kwarg if init else None
        if shared is None or not isinstance(shared.annotation, ast.Subscript):
            return
        init.args.kwarg = None
        for name, annotation in self.annotations(shared.annotation.slice.id).items():
            init.args.kwonlyargs.append(ast.arg(name, annotation))
            init.args.kw_defaults.append(self.defaults[name])

    def docstring(self, node, names):
        parts = [self.describe.sections(text) for own in [*self.chain(node.name), self.classes["OfTorch"], self.classes["Shared"]]
                 if (text := ast.get_docstring(own))]
        known = {}
        for part in reversed(parts):
            known |= self.describe.arguments(part.get("Args", ""))
        described = "\n".join(known[name] for name in names if name in known)
        text = [parts[0][""], f"Args:\n{described}"]
        text += [f"{title}:\n{words}" for title in ("Raises", "Example")
                 if (words := next((part[title] for part in parts if title in part), ""))]
        return "\n\n".join(text) + "\n"


def completed(reference, text):
    """The source of a file of altgrad/optim with its classes as above."""
    return ast.unparse(reference.complete(ast.parse(text))) + "\n"
