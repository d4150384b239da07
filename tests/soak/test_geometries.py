"""A slice of what tools/soak.sh geometries tries, and that it notices another number."""

import itertools

import geometries
import geometryrule
import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(30))
def test_a_random_rule_has_numpys_numbers(seed):
    bits, words = geometries.told(seed)
    assert words is None, words
    assert seed or not bits.startswith("refused")  # or nothing is compared


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["sums", "elements", "draws"])
def test_another_number_is_noticed(monkeypatch, where):
    reduced, draws = geometryrule.reduced, geometryrule.rounding.draws
    if where == "sums":
        monkeypatch.setattr(geometryrule, "reduced", lambda *of: [part * np.float32(1.001) for part in reduced(*of)])
    elif where == "elements":
        monkeypatch.setitem(geometryrule.BINARY, "({} + {})", lambda x, y: (x + y) * x.dtype.type(1.001))
    else:
        monkeypatch.setattr(geometryrule.rounding, "draws", lambda index, *place: draws(index + 1, *place))
    # Few rules have it in them.
    noticed = (seed for seed in range(60) if geometries.told(seed)[1] is not None)
    assert len(list(itertools.islice(noticed, 2))) == 2
