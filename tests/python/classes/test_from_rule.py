"""A class from a rule of one's own, in one line, against plain torch code."""

import inspect

import pytest
import torch
import twins

import altgrad

# Sign descent with a slowly fading step: nothing that a template covers.
RULE = """
altgrad.rule @fading(
    param %w: f32, grad %g: f32, state %best: f32,
    hyper %lr: f64 = 1.0e-2, hyper %fade: f64 = 0.5, step %t: i64,
    option %squared: i1 = false) {
  // best <- max(best, |g|), or max(best, g^2)
  %size = math.absf %g : f32
  %square = mulf %g, %g : f32
  %measure = select %squared, %square, %size : f32
  %best1 = maximumf %best, %measure : f32

  // w <- w - lr / (1 + fade t) * g / (best + 1)
  %one = constant 1.0 : f64
  %count = sitofp %t : i64 to f64
  %slow = mulf %fade, %count : f64
  %by = addf %one, %slow : f64
  %rate = divf %lr, %by : f64
  %down = negf %rate : f64
  %step = truncf %down : f64 to f32
  %unit = constant 1.0 : f32
  %denom = addf %best1, %unit : f32
  %sg = mulf %step, %g : f32
  %dw = divf %sg, %denom : f32
  %w1 = addf %w, %dw : f32
  altgrad.yield param(%w1) state(%best1)
}
"""


def plain(param, best, t, lr, fade=0.5, squared=False):
    """The same in torch, in float32."""
    g = param.grad.float()
    best = torch.maximum(best.float(), g * g if squared else g.abs())
    return param.detach().float() - lr / (1 + fade * t) * g / (best + 1), best


@pytest.mark.parametrize("squared", [False, True])
def test_own_rule_from_a_file(tmp_path, squared):
    (tmp_path / "fading.mlir").write_text(RULE)
    Mine = altgrad.optim.FromRule(tmp_path / "fading.mlir", options=["squared"] * squared)
    a, b = twins.make()
    optimizer = Mine([dict(params=a[:4]), dict(params=a[4:], fade=0.1)], lr=0.3)
    best = [torch.zeros_like(q) for q in b]
    for t in range(1, 11):
        twins.give_grads(a, b)
        optimizer.step()
        for i, q in enumerate(b):
            q.data, best[i] = plain(q, best[i], t, 0.3, 0.5 if i < 4 else 0.1, squared)
    for p, q, state in zip(a, b, best):
        torch.testing.assert_close(p, q)
        torch.testing.assert_close(optimizer.state[p]["best"], state)
        assert optimizer.state[p]["step"] == 10


def test_a_rule_that_asks_for_extents_is_told_the_parameters():
    """The last two dimensions, however they lie in memory, and how many such matrices; one row where there are less."""
    facts = "\n".join(f"%{one} = altgrad.dim {one} : i64\n%{one}64 = sitofp %{one} : i64 to f64\n"
                      f"%{one}32 = truncf %{one}64 : f64 to f32" for one in ("rows", "columns", "batch"))
    Mine = altgrad.optim.FromRule(f"""altgrad.rule @extents(param %w: f32, grad %g: f32) {{
        {facts}
        %hundred = constant 100.0 : f32
        %high = math.fma %rows32, %hundred, %columns32 : f32
        %all = math.fma %high, %hundred, %batch32 : f32
        altgrad.yield param(%all) state()
    }}""")
    shapes = {(3, 4): 30401, (2, 5, 3, 4): 30410, (7,): 10701, (): 10101, (6, 1): 60101, (2, 1, 9): 10902}
    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    params.append(torch.nn.Parameter(torch.zeros(4, 3).t()))
    for bound in (None, "agc-unit:0.1"):
        for param in params:
            param.grad = torch.ones_like(param)
        Mine(params, max_grad_norm=bound).step()
        for param, wanted in zip(params, [*shapes.values(), 30401], strict=True):
            assert param.unique().tolist() == [wanted]


def test_signature_defaults_and_unknown_names():
    Mine = altgrad.optim.FromRule(RULE)
    keywords = dict(lr=0.01, fade=0.5, max_grad_norm=None, fused_amp=False, process_group=None, statistics=False,
                    norm_in_backward=False, offload=False, numerics=None, ema=None, seed=None)
    first, *shown = inspect.signature(Mine).parameters.values()
    assert Mine.__name__ == "Fading" and first.name == "params" and {p.name: p.default for p in shown} == keywords
    assert all(f"\n    {name}: " in Mine.__doc__ for name in ("lr", "fade"))
    assert "describes them:\n" + ", ".join(list(keywords)[2:]) + "." in Mine.__doc__
    params, = twins.make(count=1)
    assert Mine(params).defaults == {"lr": 0.01, "fade": 0.5}
    with pytest.raises(TypeError, match="@fading has no hyper-parameter momentum; it takes lr, fade"):
        Mine(params, momentum=0.9)
    with pytest.raises(TypeError, match="give it to FromRule, which takes storage="):
        Mine(params, storage="best=bf16")
    with pytest.raises(TypeError, match="Optimizer is the base of the optimizers and has no rule"):
        altgrad.optim.Optimizer(params, {})


@pytest.mark.parametrize("copy", ["copy=mxfp8,both", "copy=nvfp4", "copy=ocp.e4m3fn,delayed:16", "copy=ocp.e4m3fn:128x128", "copy=nvfp4:16x16,current"])
def test_copies_in_several_states(copy):
    (mine,), (named,) = [[torch.nn.Parameter(torch.ones(64, 64))] for _ in range(2)]
    mine.grad = named.grad = torch.linspace(-1, 1, 64 * 64).view(64, 64)
    ours, theirs = altgrad.optim.FromRule("adamw", storage=copy)([mine], lr=0.1), altgrad.optim.AdamW([named], lr=0.1, storage=copy)
    ours.step(), theirs.step()
    assert torch.equal(mine, named)
    assert sum(key.startswith("copy") for key in ours.state[mine]) > 1
    for key, value in ours.state[mine].items():
        if key.startswith("copy"):
            assert torch.equal(value.reshape(-1).view(torch.uint8), theirs.state[named][key].reshape(-1).view(torch.uint8)), key


def test_storage_words():
    """float32 master weights of a bfloat16 model, a bfloat16 state, an FP8 copy."""
    Mine = altgrad.optim.FromRule(RULE, storage="master=f32 best=bf16 copy=ocp.e4m3fn")
    a, = twins.make([(8,), (4097,)], dtype=torch.bfloat16, count=1)
    optimizer = Mine(a, lr=0.01)
    master = [p.detach().float() for p in a]
    best = [torch.zeros_like(p) for p in a]
    for t in range(1, 11):
        twins.give_grads(a)
        for i, p in enumerate(a):
            twin = torch.nn.Parameter(master[i])
            twin.grad = p.grad.float()
            master[i], new = plain(twin, best[i], t, 0.01)
            best[i] = new.to(torch.bfloat16)
        optimizer.step()
    for p, w, state in zip(a, master, best):
        held = optimizer.state[p]
        assert held["best"].dtype == torch.bfloat16 and held["copy"].dtype == torch.float8_e4m3fn
        torch.testing.assert_close(held["master"], w, rtol=1e-4, atol=1e-5)
        assert torch.equal(p, held["master"].to(torch.bfloat16))
        assert torch.equal(held["copy"].float(), held["master"].to(torch.float8_e4m3fn).float())


def test_template_by_name_is_the_named_class():
    a, b = twins.make([(8,), (5, 3)])
    ours = altgrad.optim.FromRule("sgd", options=["momentum_on"])(a, lr=0.1, momentum=0.9)
    named = altgrad.optim.SGD(b, lr=0.1, momentum=0.9)
    for _ in range(3):
        twins.give_grads(a, b)
        ours.step()
        named.step()
    assert all(map(torch.equal, a, b))


@pytest.mark.parametrize("source, match", [
    (RULE.replace("mulf %fade", "powf %fade"), r"<rule>:\d+:\d+: error:"),
    ("no_such_template", "no template is called 'no_such_template'; there are .*adam, .*adamw, "),
    ("/nowhere/rule.mlir", "cannot read the rule '/nowhere/rule.mlir'"),
    (RULE + RULE.replace("@fading", "@other"), "not exactly one rule .*: @fading, @other"),
])
def test_bad_rules_are_refused_at_once(source, match):
    with pytest.raises(altgrad.Error, match=match):
        altgrad.optim.FromRule(source)


def test_bad_storage_is_refused_at_once():
    with pytest.raises(ValueError, match="'nothing=f32' names no stream of rule @fading; there are param, master, "):
        altgrad.optim.FromRule(RULE, storage="nothing=f32")
    with pytest.raises(ValueError, match="'best' is not name=format"):
        altgrad.optim.FromRule(RULE, storage="best")
    params, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.FromRule(RULE, storage="param=bf16")(params)
    twins.give_grads(params)
    with pytest.raises(TypeError, match="storage says param=bf16, but a param has torch.float32"):
        optimizer.step()


def test_a_hyper_parameter_without_default_must_be_given():
    Mine = altgrad.optim.FromRule(RULE.replace("%fade: f64 = 0.5", "%fade: f64"))
    params, = twins.make([(8,)], count=1)
    with pytest.raises(TypeError, match="rule @fading gives no default to fade"):
        Mine(params)
    assert inspect.signature(Mine).parameters["fade"].default is inspect.Parameter.empty
    Mine(params, fade=0.1)


def test_weights_loaded_later_reach_the_master_copy_when_it_is_deleted():
    Mine = altgrad.optim.FromRule(RULE, storage="master=f32")
    params, = twins.make([(8,)], dtype=torch.bfloat16, count=1)
    optimizer = Mine(params, lr=0.0)
    twins.give_grads(params)
    optimizer.step()
    params[0].data.fill_(2.0)
    del optimizer.state[params[0]]["master"]
    optimizer.step()
    assert torch.equal(params[0], torch.full((8,), 2.0, dtype=torch.bfloat16))
