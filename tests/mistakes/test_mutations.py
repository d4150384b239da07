"""Short texts that are cut, doubled or mixed up are taken or get an answer with a place; and what is printed is taken."""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = os.environ.get("ALTGRAD_OPT", "altgrad-opt")
TEXTS = [text for path in sorted((Path(__file__).parents[2] / "templates").glob("*.mlir"))
         if re.search("^rule ", text := path.read_text(), re.M)]
WORDS = re.compile(r"\s+|\w+|.", re.S)


def mutated(seed):
    """A template with a few of its words left out, repeated, exchanged or taken from another one."""
    draw = random.Random(seed)
    words, others = (WORDS.findall(draw.choice(TEXTS)) for _ in range(2))
    for _ in range(draw.randint(1, 4)):
        at, other = draw.randrange(len(words)), draw.randrange(len(words))
        change = draw.choice(["cut", "double", "swap", "take", "sign"])
        if change == "cut":
            del words[at:at + draw.randint(1, 3)]
        elif change == "double":
            words.insert(other, words[at])
        elif change == "swap":
            words[at], words[other] = words[other], words[at]
        else:
            words[at] = draw.choice(others) if change == "take" else draw.choice(list("+-*/^()=<>%@[]{}#.,:;&|!\\\"'~") + ["√", "\0"])
    return "".join(words)


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_each_has_an_answer(seed, tmp_path):
    for each in range(seed, seed + 20):
        file = tmp_path / "mutant.mlir"
        file.write_text(mutated(each))
        done = subprocess.run([PROGRAM, "--print-rule", file], capture_output=True, text=True, timeout=60)
        if done.returncode:
            assert done.returncode == 1 and re.match(r".*mutant\.mlir:\d+:\d+: error: ", done.stderr), (each, done.stderr)
            continue
        again = subprocess.run([PROGRAM, "--print-rule", "-"], input=done.stdout, capture_output=True, text=True, timeout=60)
        assert again.returncode == 0, (each, again.stderr)
