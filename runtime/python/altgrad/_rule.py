"""Rules by name, path or text, and the words of a request to the compiler."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ._core import core
from ._library import Error, find_templates

_COMMENT = re.compile(r"//[^\n]*")
# The two forms of templates/Language.md: what each rule's signature begins with, and what multiplies matrices.
_LONG = re.compile(r"\baltgrad\.rule\s+(?:private\s+)?@([A-Za-z_][\w.$-]*)\s*\(", re.ASCII)
_SHORT = re.compile(r"^[ \t]*rule\s+([A-Za-z_]\w*)\s*\(", re.ASCII | re.MULTILINE)
# A further step below a rule, and how the form of operations says of which rule it is one.
_ENTRY = re.compile(r"^[ \t]*entry\s+([A-Za-z_]\w*)", re.ASCII | re.MULTILINE)
_ENTRY_OF = re.compile(r'\baltgrad\.entry_of = "([\w.$-]+)"')
# Where a line of the short form begins.
_LINE = re.compile(r"^[ \t]*(?=[A-Za-z_]\w*[ \t]*=(?!=))", re.ASCII | re.MULTILINE)
_PRODUCTS = re.compile(r"=\s*(altgrad\.)?(orthogonalize|product|matmul)\b|\b(orthogonalize|product|matmul)\s*\(")
_TOTALS = re.compile(r"\bover\s+step\b")
# The roles of the short form that are states of a scope in the long one.
SCOPES = {"unit": "unit", "row": "row", "column": "column", "scalar": "tensor", "global": "step",
          "row_square": r"rows\s+x\s+rows", "column_square": r"columns\s+x\s+columns"}
# What is between pages of a text, each of which has a form of its own.
PAGE_END = "\f"
# A name, or a word of a rule with matrices: "steps=8".
_OPTION = re.compile(r"[A-Za-z_][\w.$-]*(=[\w.$/|+-]+)?", re.ASCII)


@dataclass(frozen=True)
class Rule:
    """A rule by its name: a stock one of the installation, or one in the MLIR `text`. An entry of a rule is one, too."""

    name: str
    text: str | None = None
    origin: str = field(default="", compare=False)

    def options(self):
        """The names of its options, as its text declares them."""
        return self.declared("option")

    def declared(self, role):
        """The names of its arguments of a role, as its text declares them."""
        of, own, form = self._own()
        if form is _LONG and role in SCOPES:
            return re.findall(rf"\bstate\s+%([\w.$-]+)\s*:\s*\w+\s+per\s+{SCOPES[role]}\b", own)
        if form is _LONG:
            return re.findall(rf"\b{role}\s+%([\w.$-]+)\s*:\s*\w+\b(?!\s+per\b)", own)
        if of is None:
            return [name for word, name in _arguments(own) if word == role]
        bracket, numbers = re.match(r"\s*(\(?)(.*)", own, re.DOTALL).groups()  # in front of lines that read the rule's
        return [name for name in Rule(of, self.text, self.origin).declared(role) if _count(own, name)] + [
            name for word, name in (_arguments(numbers) if bracket else ()) if word == role]

    def reads(self, role):
        """Whether a line of it has the argument of this role."""
        of, own, form = self._own()
        in_signature = 1 if of is None or form is _LONG else 0
        return any([_count(own, name) > in_signature for name in self.declared(role)])

    def needs(self, state):
        """Whether what it computes depends on what a state is: it may only be written."""
        _, own, form = self._own()
        if form is _LONG:
            body, _, result = own.partition("{")[2].partition("yield")
            kept = re.search(rf"state\((.*?)\)", result, re.DOTALL)[1].split(",")
            place = [name for name in re.findall(r"\bstate\s+%([\w.$-]+)", own.partition("{")[0])].index(state)
            results = [re.search(r"param\((.*?)\)", result)[1], *kept[:place], *kept[place + 1:]]
            return any([re.search(rf"%{state}(?![\w.$-])", text) for text in (body, *results)])
        for line in _LINE.split(own)[1:]:
            name, _, value = line.partition("=")
            if _count(value, state):
                return True
            if name.strip() == state:
                return False
        return False

    def entries(self):
        """The names of its entries."""
        return [name.removeprefix(f"{self.name}_") for name, (of, *_) in _parts(self._words()).items() if of == self.name]

    def _own(self):
        """(the rule of which it is an entry or None, the text from the parenthesis of its signature on, or behind the name of
        an entry in the short form, the form)."""
        words = self._words()
        return _parts(words).get(self.name, (None, "", _form_of(words)))

    def multiplies(self):
        """Whether matrices are multiplied by it, or by another rule of its text."""
        return bool(_PRODUCTS.search(self._words()))

    def totals(self):
        """Whether it reduces over the step, which needs what other devices and ranks have."""
        return bool(_TOTALS.search(self._own()[1]))

    def iterates(self):
        """Whether it orthogonalizes."""
        return bool(re.search(r"\borthogonalize\b", self._own()[1]))

    def whole_text(self):
        """Its text, which has other rules perhaps."""
        return self.text if self.text is not None else Path(self.origin).read_text(encoding="utf-8")

    def _words(self):
        return _COMMENT.sub("", self.whole_text())


def find_rule(source, name=None, entries=()):
    """The Rule in `source`: the name of a template, the path of a file, or the text itself.

    A string is a path when it has a separator or ends in ".mlir"; a name is
    looked up in the installation and nowhere else. `name` chooses among several
    rules of one text; without it, there is one beside its entries and those that `entries` names. Raises Error.
    """
    if isinstance(source, os.PathLike):
        return _in_file(source, name, entries)
    if not isinstance(source, str):
        raise TypeError(f"a rule is the name of a template, the path of a file or the text of a rule, not {source!r}")
    if "\n" in source or _parts(_COMMENT.sub("", source)):
        return _in_text(source, "<rule>", name, entries)
    if core().altgrad_core_is_rule_file(os.fsencode(source)):
        return _in_file(source, name, entries)
    folder = find_templates()
    known = sorted(path.stem for path in folder.glob("*.mlir"))
    if source not in known and re.search(r"[\s=(){}]", source):
        raise Error(f"{source!r} is no rule: a text begins rule name(param w, grad g, lr = 1e-3), a file "
                    f"is named with its folder or .mlir, and templates are {', '.join(known)}", "NOT_FOUND")
    if source not in known:
        near = difflib.get_close_matches(source, known, 1)
        raise Error(f"no template is called {source!r}; " + (f"did you mean {near[0]!r}? There" if near else "there")
                    + f" are {', '.join(known)}; a file is named with its folder or .mlir", "NOT_FOUND")
    if name not in (None, source):
        raise Error(f"the template {source} holds no rule @{name}", "NOT_FOUND")
    return Rule(source, None, str(folder / f"{source}.mlir"))


def _in_file(path, name, entries):
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Error(f"cannot read the rule {os.fspath(path)!r}: {error}", "NOT_FOUND") from None
    return _in_text(text, os.fspath(path), name, entries)


def _in_text(text, origin, name, entries):
    names = [*(parts := _parts(_COMMENT.sub("", text)))]
    first = [one for one in names if parts[one][0] is None
             and not any([one == f"{other}_{entry}" for other in names for entry in entries])]
    if name is None and len(first) == 1:
        name, = first
    if name not in names:
        wanted = f"no rule @{name}" if name else "not exactly one rule"
        held = ", ".join("@" + n for n in names if parts[n][0] is None) or "none"
        raise Error(f"{origin} holds {wanted} (rules there: {held})", "NOT_FOUND")
    return Rule(name, text, origin)


def _parts(words):
    """{name: (the rule of which it is an entry or None, its own text, its form)} of what stands in a text without comments."""
    parts = {}
    for page in words.split(PAGE_END):
        form = _form_of(page)
        begins = [*form.finditer(page), None]
        for begin, after in zip(begins, begins[1:]):
            own = page[begin.end():after and after.start()]
            of = _ENTRY_OF.search(own) if form is _LONG else None
            first, *entries = [own] if form is _LONG else _ENTRY.split(own)
            parts[begin[1]] = of and of[1], first, form
            parts |= {f"{begin[1]}_{name}": (begin[1], lines, form) for name, lines in zip(entries[::2], entries[1::2])}
    return parts


def joined(texts):
    """Texts of rules as one, whose pages have a form each."""
    short = [text for text in texts if _form_of(_COMMENT.sub("", text)) is _SHORT]
    return PAGE_END.join(["\n".join(part) for part in (short, [text for text in texts if text not in short]) if part])


def _count(text, name):
    return len(re.findall(rf"(?<![\w.]){name}(?!\w)", text))


def _form_of(words):
    """How rules begin in a text without comments: its first word says which form it has."""
    return _SHORT if re.match(r"\s*rule\b", words) else _LONG


def signatures_of(text):
    """(text without comments, whether it is in the form of operations, [(name, where its arguments begin and end)] of its rules)."""
    words = _COMMENT.sub("", text)
    begins = _form_of(words).finditer(words)
    return words, _form_of(words) is _LONG, [(one[1], one.end(), one.end() + len(_arguments_at(words[one.end():]))) for one in begins]


def _arguments_at(signature):
    """What is before the parenthesis that closes a signature."""
    return re.match(r"(?:[^()]|\([^()]*\))*", signature)[0]


def _arguments(signature):
    """(role, name) of each argument in the short form, from behind its parenthesis on."""
    role, inside = "hyper", _arguments_at(signature)
    for part in inside.split(","):
        names = part.split("=")[0].split()
        if len(names) > 1:
            role, *names = names
        elif "=" in part:
            role = "hyper"
        yield from ((role, name) for name in names)


def parse_options(options):
    """The options that are on and words such as "steps=8", in a fixed order, each once.

    `options` is one of them, several, or a mapping from them to whether they are on.
    """
    if isinstance(options, str):
        options = (options,)
    if isinstance(options, Mapping):
        options = [name for name, on in options.items() if on]
    for name in options:
        if not isinstance(name, str) or not _OPTION.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of an option, nor a word such as 'steps=8'")
    return tuple(sorted(set(options)))


def set_line(rule, options, words):
    """One set of tensors in the words of altgrad-opt: rule, options that are on, storage."""
    chosen = "{" + ",".join(options) + "}" if options else ""
    return " ".join([f"rule={rule.name}{chosen}", *(f"{name}={word}" for name, word in words.items())])
