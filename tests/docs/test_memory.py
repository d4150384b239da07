"""The table of a 7B model's memory, by arithmetic: bytes of an element times elements."""
import sys

import pages
import pytest

sys.path.insert(0, str(pages.ROOT / "tools"))
import memory  # noqa: E402

VECTORS = 65 * 4096  # below 4096 elements there would be no blocks
TABLES = 2 * 32000 * 4096
MATRICES = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
ALL = VECTORS + TABLES + MATRICES
ROWS = {words: figures for words, *figures in memory.rows()}


def test_it_is_llama_2_7b():
    assert ALL == 6_738_415_616


@pytest.mark.parametrize("row, model, states, masters", [
    ("torch.optim.AdamW, float32", 4, 8, 0), ("torch.optim.AdamW, bfloat16", 2, 4, 0), ('storage="master=f32"', 2, 8, 4),
    ("master=bf16+i16", 2, 8, 2), ("AdamW8bit", 2, 2 * (1 + 4 / 256), 0), ("AdamW4bit", 2, 2 * (1 / 2 + 4 / 128), 0)])
def test_a_row(row, model, states, masters):
    parameters, gradients, kept, copies, together, load = next(ROWS[words] for words in ROWS if row in words)
    expected = [count * ALL / 1e9 for count in (model, model, states, masters)]
    assert [parameters, gradients, kept, copies] == pytest.approx(expected, rel=1e-3)
    assert together == pytest.approx(sum(expected), rel=1e-3)
    assert load == pytest.approx(parameters + kept + copies, rel=0.02)


def test_muon_keeps_one_state_of_a_matrix_and_adamw_two():
    found = next(ROWS[words] for words in ROWS if words.startswith("Muon"))
    assert found[2] == pytest.approx(4 * (MATRICES + 2 * (TABLES + VECTORS)) / 1e9, rel=1e-3)


def test_squares_weigh_what_their_sides_say():
    (_, *soap), (_, *shampoo) = memory.rows(memory.SQUARES)
    squares = (32 * 11 + 2) * 4096**2  # a side of 11008 or 32000 has none
    assert soap[2] == pytest.approx((8 * ALL + 8 * squares) / 1e9, rel=1e-3)
    assert shampoo[2] == pytest.approx((4 * ALL + 8 * squares) / 1e9, rel=1e-3)
