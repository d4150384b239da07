"""Words that the glossary calls gone stand in no code of the compiler."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "dialect/Glossary.md").read_text()
NOT_OURS = {"findInstanceOf"}  # of MLIR


def gone():
    rows = GLOSSARY.split("## Gone")[1].splitlines()
    cells = [re.split(r"(?<!\\)\|", row)[1] for row in rows if row.startswith("| `")]
    return [word.replace(r"\|", "|") for cell in cells for word in re.findall("`([^`]*)`", cell)]


def code():
    files = (file for folder in ("dialect", "passes", "codegen") for file in sorted((ROOT / folder).rglob("*")))
    return {file: re.sub(r"//.*", "", file.read_text()) for file in files if file.suffix in (".cpp", ".h", ".td")
            and file.name != "RenamedOperations.cpp"}


CODE = code()


@pytest.mark.parametrize("word", gone())
def test_no_identifier_is_a_word_that_is_gone(word):
    found = [f"{file.relative_to(ROOT)}: {match[0]}" for file, text in CODE.items()
             for match in re.finditer(rf"(?<![\w.])(?<!std::)({word})\b", text) if match[0] not in NOT_OURS]
    assert found == []


def test_the_table_has_words():
    assert len(gone()) > 20 and len(CODE) > 100
