"""Reads steps and rules, as altgrad-opt prints them in generic form, into lists of operations."""

import dataclasses
import re


class NotRead(Exception):
    """Text that this reader does not understand."""


@dataclasses.dataclass
class Op:
    name: str
    results: list  # names of values; the n-th of several is "%5#1"
    operands: list
    attributes: dict  # attribute text by name
    types: list  # of the operands
    result_types: list
    body: "Body" = None

    def strings(self, name):
        return re.findall(r'"([^"]*)"', self.attributes[name])

    def said(self):
        """(access, role, name, scope, set, default) of each argument of a rule or a step; no default is ""."""
        return re.findall(r'access = (\w+), role = (\w+), name = "(\w+)", key = "\w+", scope = (\w+), set = (-?\d+)'
                          r'(?:, fallback = ([^ >]+))?', self.attributes["signature"])

    def roles(self):
        return [role for _, role, *_ in self.said()]

    def segments(self):
        """The operands in the groups that operandSegmentSizes says."""
        sizes = [int(n) for n in re.findall(r"-?\d+(?=[,>])",
                                            self.attributes["operandSegmentSizes"])]
        groups, start = [], 0
        for size in sizes:
            groups.append(list(zip(self.operands, self.types))[start:start + size])
            start += size
        return groups


@dataclasses.dataclass
class Body:
    arguments: list  # (name, type)
    ops: list


def split(text, separator=","):
    """Splits at separators outside brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted or (c == ">" and text[i - 1] == "-"):
            continue
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def matching(text, start):
    """Index behind the bracket that closes the one at `start`."""
    closing = {"(": ")", "{": "}", "<": ">", "[": "]"}[text[start]]
    depth, quoted = 0, False
    for i in range(start, len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif quoted or (text[i] == ">" and text[i - 1] == "-"):
            continue
        elif text[i] == text[start]:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
    raise NotRead(f"no {closing} for {text[start:start + 40]}")


def _attributes(text):
    found = {}
    for entry in split(text):
        name, _, value = entry.partition(" = ")
        found[name.strip()] = value.strip()
    return found


def _types(text):
    text = text.strip()
    if text.startswith("("):
        return split(text[1:matching(text, 0) - 1])
    return [text]


_HEAD = re.compile(r'^\s*(?:(%[\w$.-]+)(?::(\d+))? = )?"([\w.]+)"\(')


def _results(name, count):
    if name is None:
        return []
    return [name] if count is None else [f"{name}#{i}" for i in range(int(count))]


def _signature(op, text):
    """`(operand types) -> result types` behind the colon."""
    operand_types, _, result_types = text.strip().removeprefix(":").strip().partition(" -> ")
    op.types, op.result_types = _types(operand_types), _types(result_types)


def _op(line):
    head = _HEAD.match(line)
    if not head:
        raise NotRead(line)
    end = matching(line, head.end() - 1)
    op = Op(head[3], _results(head[1], head[2]), split(line[head.end():end - 1]), {}, [], [])
    rest = line[end:].strip()
    while rest.startswith(("<{", "{")):
        end = matching(rest, 0)
        inner = rest[:end].strip("<>") if rest[0] == "<" else rest[:end]
        op.attributes.update(_attributes(inner.strip()[1:-1]))
        rest = rest[end:].strip()
    return op, rest


def parse(text):
    """The operations of a module printed with --mlir-print-op-generic."""
    stack, body = [], Body([], [])
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        if line.startswith("^bb"):
            inside = line[line.index("(") + 1:line.rindex(")")]
            body.arguments = [tuple(p.strip() for p in a.split(":", 1)) for a in split(inside)]
        elif line.startswith("})"):
            inner, body, op = body, *stack.pop()
            op.body = inner
            op.attributes.update(_attributes(line[line.find("{", 2) + 1:line.rfind("}")])
                                 if "{" in line[2:] else {})
            _signature(op, line[line.rindex(" : ") + 2:])
        else:
            op, rest = _op(line)
            body.ops.append(op)
            if rest.startswith("({"):
                stack.append((body, op))
                body = Body([], [])
            else:
                _signature(op, rest)
    if stack:
        raise NotRead("a region is not closed")
    module = body.ops[0]
    return module.body.ops if module.name == "builtin.module" else body.ops
