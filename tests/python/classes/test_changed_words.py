"""What a param_group says is asked again when it changes: of words as of numbers, in every class that has some."""

import pytest
import torch

import altgrad

optim = altgrad.optim


def train(kind, words, shape=(6, 4)):
    """A parameter after a step with each of these words."""
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    optimizer = kind([dict(params=[param], **words[0])], lr=0.01)
    for one in words:
        optimizer.param_groups[0].update(one)
        param.grad = torch.randn(shape)
        optimizer.step()
    return param.detach()


@pytest.mark.parametrize("kind, first, other, shape", [
    (optim.Scion, dict(norm="Spectral"), dict(norm="Sign"), (6, 4)), (optim.Scion, dict(norm="Sign"), dict(norm="RowNorm"), (6, 4)),
    (optim.Scion, dict(norm="Spectral", norm_kwargs={"steps": 5}), dict(norm_kwargs={"steps": 2}), (6, 4)),
    (optim.MARS, dict(mars_type="mars-adamw"), dict(mars_type="mars-shampoo"), (6, 4)),
    (optim.SOAP, dict(precondition_frequency=10), dict(precondition_frequency=1), (6, 4)),
    (optim.Shampoo, dict(max_precond_dim=9), dict(max_precond_dim=5), (6, 4)), (optim.Muon, dict(flatten=False), dict(flatten=True), (3, 4, 5)),
    (optim.Dion, dict(rank_fraction=0.25), dict(rank_fraction=0.75), (6, 4)), (optim.Dion, dict(power_iters=1), dict(power_iters=3), (6, 4))])
def test_another_word_takes_effect_in_later_steps(kind, first, other, shape):
    same, changed = [train(kind, [first, first, second, second], shape) for second in (first, other)]
    assert not torch.equal(same, changed) and changed.isfinite().all()


@pytest.mark.parametrize("kind, word, words", [
    (optim.Scion, dict(norm="none"), "group 0: norm is 'none', none of"), (optim.MARS, dict(mars_type="none"), "group 0: mars_type is 'none'"),
    (optim.SOAP, dict(precondition_frequency=0), "group 0: precondition_frequency is 0, not a whole"),
    (optim.SOAP, dict(precondition_frequency=2.5), "precondition_frequency is 2.5"), (optim.AdamMini, dict(split="none"), "split is 'none'"),
    (optim.Shampoo, dict(grafting_type="none"), "grafting_type is 'none'"), (optim.Dion, dict(algorithm="lion"), "algorithm is 'lion'"),
    (optim.Dion, dict(rank_fraction=2), "rank_fraction is 2, not above 0 and at most 1"), (optim.Muon, dict(ns_steps=0), "ns_steps is 0")])
def test_a_word_that_is_none_is_refused_by_the_next_step_and_changes_nothing(kind, word, words):
    param = torch.nn.Parameter(torch.randn(6, 4))
    optimizer = kind([param], lr=0.01)
    param.grad = torch.randn(6, 4)
    optimizer.step()
    before, kept = param.detach().clone(), {key: optimizer.param_groups[0][key] for key in word}
    optimizer.param_groups[0].update(word)
    with pytest.raises(ValueError, match=words):
        optimizer.step()
    assert torch.equal(param, before)
    optimizer.param_groups[0].update(kept)
    optimizer.step()
    assert param.isfinite().all() and not torch.equal(param, before)


@pytest.mark.parametrize("first, other, lacks", [("dion", "adamw", "'exp_avg_sq'"), ("adamw", "dion", "'q'")])
def test_another_algorithm_of_dion_takes_no_averages_that_are_not_its_own(first, other, lacks):
    param = torch.nn.Parameter(torch.randn(6, 4))
    optimizer = optim.Dion([param], algorithm=first)
    for name in (first, other):
        optimizer.param_groups[0]["algorithm"], param.grad = name, torch.randn(6, 4)
        if name == other:
            with pytest.raises(ValueError, match=f"has 'exp_avg', .*and no {lacks}: load a state that is whole, or clear it"):
                optimizer.step()
            optimizer.state[param].clear()
        optimizer.step()


@pytest.mark.parametrize("kind, file, own", [(optim.AdamW, torch.optim.SGD, "'exp_avg', 'exp_avg_sq'"), (optim.Dion, torch.optim.Muon, "'exp_avg'"),
                                             (optim.Lion, torch.optim.RMSprop, None), (optim.AdamW, torch.optim.Adam, None)])
def test_a_file_of_another_class_whose_states_are_of_no_use_is_named(kind, file, own, recwarn):
    param = torch.nn.Parameter(torch.randn(6, 4))
    other = file([param], lr=0.1, **({} if file in (torch.optim.Adam,) else {"momentum": 0.9}))
    param.grad = torch.randn(6, 4)
    other.step()
    kind([param], lr=0.1).load_state_dict(other.state_dict())
    said = [str(one.message) for one in recwarn.list if "so parameters begin anew" in str(one.message)]
    assert len(said) == (file is not torch.optim.Adam)
    if own:
        assert "the file has 'momentum_buffer' in the place of this class's states " + own in said[0]
