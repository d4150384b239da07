"""Keywords of other libraries: the error says how it is said here, and so does the guide."""

import re
from pathlib import Path

import altgrad
import pytest
import torch
from altgrad.optim._keywords import _MIGRATION

PAGE = (Path(__file__).resolve().parents[3] / "runtime/python/guide/Migration.md").read_text()
OF_MUON = {"mu", "adjust_lr", "cautious_wd", "use_polar_express", "newton_schulz_func", "distributed_mesh", "algorithm", "muon_params", "adamw_params"}


def refused(name):
    kind = altgrad.optim.Muon if name in OF_MUON else altgrad.optim.AdamW
    with pytest.raises(TypeError) as error:
        kind([torch.nn.Parameter(torch.zeros(4, 4))], **{name: 1})
    return str(error.value)


@pytest.mark.parametrize("name", sorted(_MIGRATION))
def test_the_error_says_what_to_write(name):
    said = refused(name)
    assert said.startswith("altgrad.optim.") and f"'{name}'; {_MIGRATION[name]}" in said


@pytest.mark.parametrize("name", sorted(_MIGRATION))
def test_what_it_says_to_write_is_taken(name):
    """The keywords in the advice, with the values that stand there."""
    kind = altgrad.optim.Muon if name in OF_MUON else altgrad.optim.AdamW
    pattern = r'(?<![\w(.])(max_grad_norm|storage|orthogonalize|cautious|offload|preset)=("[^"]*"|True|altgrad[\w.]*\(.*?\))'
    for keyword, value in re.findall(pattern, _MIGRATION[name]):
        if "..." not in value:
            kind([torch.nn.Parameter(torch.zeros(4, 4))], **{keyword: eval(value)})


def test_a_group_says_so_too():
    """Dion's group for AdamW: it was a group of Muon."""
    embedding = torch.nn.Parameter(torch.zeros(4, 4))
    with pytest.raises(TypeError, match="altgrad.optim.Muon, group 0: got an unexpected key 'algorithm'; write \"use_muon\": False"):
        altgrad.optim.Muon([{"params": [embedding], "algorithm": "adamw"}], lr=0.02)
    optimizer = altgrad.optim.AdamW([{"params": [embedding], "name": "a key of the caller's"}])
    with pytest.raises(TypeError, match="group 1: got an unexpected key 'optim_bits'; states in 8 bits are classes"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(4))], "optim_bits": 32})
    assert len(optimizer.param_groups) == 1 and optimizer.param_groups[0]["name"] == "a key of the caller's"


@pytest.mark.parametrize("name", ["optim_bits", "min_8bit_size", "percentile_clipping", "block_wise", "is_paged", "block_size",
                                  "bf16_stochastic_round", "master_weights", "exp_avg_dtype", "adam_w_mode", "mu", "adjust_lr",
                                  "cautious_wd", "use_polar_express", "distributed_mesh", "store_param_remainders", "algorithm",
                                  "muon_params", "adamw_params"])
def test_the_page_has_it(name):
    assert re.search(rf"\b{name}\b", PAGE)
