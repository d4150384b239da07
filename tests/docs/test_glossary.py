"""Words that the glossary calls gone stand in no code of the compiler and of the runtime."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "dialect/Glossary.md").read_text()
NOT_OURS = {"findInstanceOf"}  # of MLIR


def gone(title):
    rows = GLOSSARY.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    cells = [re.split(r"(?<!\\)\|", row)[1] for row in rows if row.startswith("| `")]
    # A long pattern has spaces at which its cell breaks.
    return [word.replace(r"\|", "|").replace("| ", "|") for cell in cells for word in re.findall("`([^`]*)`", cell)]


def identifiers(text):
    """Those of a Python file, without strings and comments."""
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def compiler():
    files = (file for folder in ("dialect", "passes", "codegen") for file in sorted((ROOT / folder).rglob("*")))
    return {file: re.sub(r"//.*", "", file.read_text()) for file in files if file.suffix in (".cpp", ".h", ".td")
            and file.name != "RenamedOperations.cpp"}


def runtime():
    files = sorted((ROOT / "runtime").rglob("*"))
    return ({file: re.sub(r'//.*|"(\\.|[^"\\\n])*"', "", file.read_text()) for file in files if file.suffix in (".cpp", ".h")} |
            {file: " ".join(identifiers(file.read_text())) for file in files if file.suffix == ".py"})


COMPILER, RUNTIME = compiler(), runtime()


@pytest.mark.parametrize("word, sources", [(word, COMPILER) for word in gone("Gone")] +
                         [(word, RUNTIME) for word in gone("Gone in the runtime")], ids=lambda of: of if isinstance(of, str) else "")
def test_no_identifier_is_a_word_that_is_gone(word, sources):
    found = [f"{file.relative_to(ROOT)}: {match[0]}" for file, text in sources.items()
             for match in re.finditer(rf"(?<![\w{'.' * (sources is COMPILER)}])(?<!std::)({word})\b", text) if match[0] not in NOT_OURS]
    assert found == []


def test_the_tables_have_words():
    assert len(gone("Gone")) > 20 and len(COMPILER) > 100
    assert len(gone("Gone in the runtime")) > 50 and len(RUNTIME) > 200
