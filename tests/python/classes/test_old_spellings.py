"""Names and keywords of earlier versions do what their new ones do, and warn of it at the user's line; names of torch and of
other libraries are there without a warning."""

import altgrad
import pytest
import torch
import torch.distributed as dist
from altgrad.optim import NewtonSchulz

MOVED = ["gram matrices.gram", "newton_schulz matrices.newton_schulz", "qk_clip_ matrices.qk_clip_",
         "quantize_blocks quant.quantize_blocks", "quantize_codes quant.quantize_codes",
         "ops.quantize_blocks quant.quantize_blocks", "ops.quantize_codes quant.quantize_codes",
         "optim.transcode transcode", "optim.StateError StateError",
         "distributed.joined distributed.merge_state_dicts"]
ALIASES = ["Storage optim.Storage", "clip_grad_norm_ ops.clip_grad_norm_", "clip_grad_value_ ops.clip_grad_value_",
           "compute_global_grad_norm ops.grad_norm", "ops.compute_global_grad_norm ops.grad_norm",
           "dynamic_loss_scale_update ops.dynamic_loss_scale_update",
           "fused_grad_unscale_clip ops.fused_grad_unscale_clip",
           *[f"{front}{name} quant.{name}" for front in ("", "ops.")
             for name in ("AmaxHistory", "compute_scale", "dequantize", "quantize")],
           "optim.DistAdamW distributed.DistAdamW", "optim.DistMuon distributed.DistMuon"]
SOURCES = ["Bf16Capability", "detect_bf16_support", "get_amp_dtype_for_device", "get_bf16_capability", "get_optimal_dtype",
           "is_bf16_tensor", "print_bf16_status", "safe_to_bf16"]


def find(path):
    found = altgrad
    for name in path.split("."):
        found = getattr(found, name)
    return found


def warns(old):
    return pytest.warns(FutureWarning, match=rf"{old}.* now; the old spelling works for one more release")


@pytest.mark.parametrize("names", MOVED)
def test_a_name_that_moved_warns_and_is_the_new_one(names):
    old, new = names.split()
    with warns(f"altgrad.{old} is altgrad.{new}") as caught:
        assert find(old) is find(new)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("names", ALIASES)
@pytest.mark.filterwarnings("error")
def test_the_names_of_others_are_the_same_things(names):
    old, new = names.split()
    assert find(old) is find(new)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.filterwarnings("error")
def test_functions_that_a_source_names_are_described_where_they_are(name):
    assert callable(getattr(altgrad.amp, name)) and (name in altgrad.amp.__doc__ or name == "Bf16Capability")


def weight(shape=(6, 8)):
    param = torch.nn.Parameter(torch.arange(48.0).reshape(shape) / 48)
    param.grad = torch.full_like(param, 0.25) + torch.eye(6, 8)
    return param


OPTIMIZERS = [
    ("SGD", dict(profile="torch"), dict(numerics="torch")), ("GridOptim", dict(profile="reference", seed=1), dict(numerics="reference", seed=1)),
    ("Muon", dict(profile="kj"), dict(preset="kj")), ("Muon", dict(profile="torch"), dict(preset="torch", numerics="torch")),
    ("Muon", dict(profile="torch", numerics=None), dict(preset="torch")),
    ("NorMuon", dict(profile="torch"), dict(numerics="torch")),
    ("Muon", dict(ns_dtype=torch.float32, ns_length="added"), dict(orthogonalize=NewtonSchulz(dtype=torch.float32, length="added"))),
    ("Muon", dict(equilibrate="rows", orthogonalize=NewtonSchulz(steps=3)), dict(orthogonalize=NewtonSchulz(equilibrate="rows", steps=3))),
    ("NorMuon", dict(red_dim="by_shape"), dict(orthogonalize=NewtonSchulz(red_dim="by_shape"))),
]


@pytest.mark.parametrize("name, old, new", OPTIMIZERS, ids=str)
def test_an_old_keyword_is_its_new_one(name, old, new):
    params, make = (weight(), weight()), getattr(altgrad.optim, name)
    with warns(rf"altgrad.optim.{name}\((profile|ns_dtype|equilibrate|red_dim)=...\)|altgrad.optim.Muon\(ns_length"):
        optimizers = [make(params[:1], **old)]
    optimizers.append(make(params[1:], **new))
    groups = [{key: value for key, value in of.param_groups[0].items() if key != "params"} for of in optimizers]
    assert groups[0] == groups[1] and optimizers[0].numerics == optimizers[1].numerics == new.get("numerics")
    assert getattr(optimizers[0], "preset", None) == getattr(optimizers[1], "preset", None) == new.get("preset")
    for optimizer in optimizers:
        optimizer.step()
    assert torch.equal(*params)


def test_torch_has_three_of_the_words_and_both_at_once_are_refused():
    given = dict(ns_steps=4, ns_coefficients=(3.0, -4.0, 2.0), adjust_lr_fn="match_rms_adamw")
    one = altgrad.optim.Muon([weight()], **given).param_groups[0]
    same = NewtonSchulz(steps=4, coefficients=(3.0, -4.0, 2.0), scale="match_rms_adamw")
    for groups in ([weight()], dict(orthogonalize=same)), ([{"params": [weight()], "orthogonalize": same}], {}):
        other = altgrad.optim.Muon(groups[0], **groups[1]).param_groups[0]
        assert all(one[key] == other[key] for key in given) and "orthogonalize" not in other
    with pytest.raises(TypeError, match="ns_steps is given, and so is its word in orthogonalize"):
        altgrad.optim.Muon([weight()], ns_steps=4, orthogonalize=same)
    with pytest.raises(TypeError, match="group 1: ns_steps is given, and so is its word in orthogonalize"):
        altgrad.optim.Muon([{"params": [weight()], "orthogonalize": None}, {"params": [weight()], "orthogonalize": same, "ns_steps": 4}])
    with pytest.raises(TypeError, match="profile= is the old spelling of numerics=, and both are given"):
        altgrad.optim.SGD([weight()], profile="torch", numerics="torch")
    with pytest.raises(TypeError, match="orthogonalize says red_dim, which is NorMuon's"):
        altgrad.optim.Muon([weight()], orthogonalize=NewtonSchulz(red_dim=-1))
    with pytest.raises(TypeError, match=r"orthogonalize is 5, not an altgrad.optim.NewtonSchulz"):
        altgrad.optim.Muon([weight()], orthogonalize=5)


@pytest.mark.parametrize("given, words", [
    ({"dtype": torch.float64}, "dtype is torch.float64, none of torch.bfloat16"), ({"length": "long"}, "length is 'long', none of 'clamped', 'added'"),
    ({"scale": "rms"}, "scale is 'rms', none of 'original'"), ({"red_dim": 0}, "red_dim is 0, none of -1, 'by_shape'")], ids=str)
def test_words_of_newton_schulz_that_are_none(given, words):
    with pytest.raises(TypeError, match=r"NewtonSchulz got an unexpected keyword argument 'ns_dtype'; did you mean dtype\?"):
        NewtonSchulz(ns_dtype=torch.float32)
    with pytest.raises(ValueError, match=f"altgrad.optim.NewtonSchulz: {words}"):
        NewtonSchulz(**given)


def test_a_rule_of_ones_own_and_properties_have_the_old_names():
    with warns(r"altgrad.optim.Lion\(profile=...\) is numerics="):
        optimizer = altgrad.optim.FromRule("lion")([weight()], profile="torch")
    with warns("optimizer.profile is optimizer.numerics"):
        assert optimizer.profile == optimizer.numerics == "torch"
    with warns("optimizer.profile is optimizer.numerics"):
        optimizer.profile = None
    assert optimizer.numerics is None


def test_the_memory_of_ranks_takes_the_old_dtype():
    kind, params = altgrad.optim.AdamW, [torch.nn.Parameter(torch.zeros(300, 7, dtype=torch.bfloat16))]
    with warns(r"altgrad.distributed.memory\(wire=...\) is reduce_dtype="):
        old = altgrad.distributed.memory(kind, params, 2, wire=torch.float32)
    assert old == altgrad.distributed.memory(kind, params, 2, reduce_dtype=torch.float32)
    assert old != altgrad.distributed.memory(kind, params, 2)


def test_ranks_have_the_old_names(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        with warns(r"altgrad.distributed.Sharded\(wire=...\) is reduce_dtype="):
            optimizer = altgrad.distributed.Sharded(altgrad.optim.AdamW, [weight()], wire=torch.bfloat16)
        with warns("optimizer.own is optimizer.local_optimizer"):
            assert optimizer.own is optimizer.local_optimizer
        with pytest.raises(ValueError, match="reduce_dtype is torch.float16; gradients travel in"):
            altgrad.distributed.Sharded(altgrad.optim.AdamW, [weight()], reduce_dtype=torch.float16)
        with warns(r"altgrad.optim.Muon\(ns_dtype=...\)"):
            owners = altgrad.distributed.DistMuon([weight()], ns_dtype=torch.float32)
        groups = [{"params": [weight()], "orthogonalize": NewtonSchulz(dtype=torch.float32)}]
        others = altgrad.distributed.DistMuon(groups)
        says = [{key: value for key, value in of.param_groups[0].items() if key != "params"} for of in (owners, others)]
        assert says[0] == says[1] and says[1]["ns_dtype"] is torch.float32
        del optimizer, owners, others
    finally:
        dist.destroy_process_group()


@pytest.mark.filterwarnings("error")
def test_a_scaler_finds_the_optimizer_of_a_rank_by_its_new_name(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        param, scaler = weight(), altgrad.amp.GradScaler("cpu", init_scale=2.0)
        optimizer = altgrad.distributed.Sharded(altgrad.optim.AdamW, [param])
        before = param.detach().clone()
        scaler.scale(param.sum()).backward()
        scaler.step(optimizer)
        assert not torch.equal(param, before)
        del optimizer
    finally:
        dist.destroy_process_group()
