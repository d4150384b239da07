"""What cannot be traced is refused in words, at the line of the class."""

import math
import random

import pytest
import torch
import torchclasses

import altgrad
from altgrad.language import RuleError


def attribute(self, value):
    self.seen = value


MISTAKES = [
    (lambda self, group, p, g, state, total: p.sub_(g.mean(dim=1)), "a list of rows meets a tensor: torch would lay it along the columns"),
    (lambda self, group, p, g, state, total: p.sub_((g - g.mean(dim=1, keepdim=True) * 0 + g.norm(dim=0)).mean(1).unsqueeze(0)),
     r"unsqueeze\(\) of a list of rows at dimension 0: a rule has numbers for each row, \(rows, 1\)"),
    (lambda self, group, p, g, state, total: p.sub_(g * (0.5 * p.shape[1])), "a size of the parameter behind a float of Python's, or in C code"),
    (lambda self, group, p, g, state, total: p.sub_(g.view(-1, 1) + g.view(-1)), "a list of elements meets a column of them"),
    (lambda self, group, p, g, state, total: p.sub_(g.view(p.shape[1], -1)), r"view\(\) to another shape"),
    (lambda self, group, p, g, state, total: g.mean(dim=0).add_(g), r"add_\(\) writes a tensor into a list of columns"),
    (lambda self, group, p, g, state, total: p.sub_((torch.zeros_like(g) + g.mean(0)).sum()), "numbers of rows or columns that were spread over"),
    (lambda self, group, p, g, state, total: p.sub_(g / total), "the step of a parameter depends on other parameters: a rule reads one parameter"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=random.random()), "the step is another one each time that it runs, as by the time"),
    (lambda self, group, p, g, state, total: (p.sub_(g, alpha=group["lr"]), group.update(lr=group["lr"] * 0.9)), "the step changes 'lr' of its group"),

    (lambda self, group, p, g, state, total: p.sub_(g @ g.T), "x.T of a tensor: there is no such thing"),
    (lambda self, group, p, g, state, total: p.sub_(g) if g > 0 else None, "a branch on elements: it has no one side for all of them"),
    (lambda self, group, p, g, state, total: p.sub_(torch.tan(g)), "torch.tan of elements: there is no such function of elements yet"),
    (lambda self, group, p, g, state, total: p.sub_(torch.randn_like(g)), "torch.randn_like: a rule has random numbers of its own"),
    (lambda self, group, p, g, state, total: p.sub_(g[0]), "an element by its index: a rule is the same for all elements"),
    (lambda self, group, p, g, state, total: p.sub_(g.item()), r"item\(\) of a tensor with many elements"),
    (lambda self, group, p, g, state, total: p.sub_(g.bfloat16()), r"bfloat16\(\) in the code of a step: elements are float32, and storage="),
    (lambda self, group, p, g, state, total: p.sub_(g.to(torch.float16)), "torch.float16 in the code of a step: elements are float32, and storage="),
    (lambda self, group, p, g, state, total: p.sub_(math.fsum([group["lr"]]) * g), "math.fsum of several numbers of the rule"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=divmod(group["lr"], 1.0)[1]), r"__divmod__\(\) of a number"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=self.param_groups[0]["lr"]), "depends on other groups"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=sum(self.rates)), "a number that the optimizer noted of its groups when"),
    (lambda self, group, p, g, state, total: (self.history.append(total), p.sub_(g)), "keeps something of its own from step to step, 'history'"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=float(g.norm())), "a number that is known in each step only is wanted as a float"),
    (lambda self, group, p, g, state, total: p.sub_(g, alpha=math.cos(g.norm())), "math.cos of a tensor"),
    (lambda self, group, p, g, state, total: state.update(buffers=[g]), r"Mistake: state 'buffers' is a list"),
    (lambda self, group, p, g, state, total: state.update(row=torch.zeros(p.shape[0], p.shape[0])),
     "a state of another shape than the parameter's, a row's or a column's"),
    (lambda self, group, p, g, state, total: (p.sub_(g), attribute(self, g.norm())), "keeps something of its own from step to step, 'seen'"),
    (lambda self, group, p, g, state, total: p.sub_(g * 0 + torch.ones(3)), "a state of another shape than the parameter's"),
    (lambda self, group, p, g, state, total: None, "the step leaves the parameter as it is"),
    (lambda self, group, p, g, state, total: p.sub_(g / state["missing"]), "KeyError: 'missing'"),
]


@pytest.mark.parametrize("what, words", MISTAKES, ids=[words[:30] for _, words in MISTAKES])
def test_what_cannot_be_traced(what, words):
    with pytest.raises(RuleError, match=words) as caught:
        altgrad.optim.from_torch(torchclasses.Mistake, what=what)
    ours = what.__code__.co_firstlineno, __file__
    assert (caught.value.lineno, caught.value.filename) == ours or caught.value.filename == torchclasses.__file__


def halved(self, group, p, g, state, total):
    x = g.norm()
    while x > 1:
        x = x / 2
    p.sub_(x * g)


def sorted_or_not(self, group, p, g, state, total):
    try:
        p.sub_(g.sort().values)
    except Exception:
        p.sub_(g)


@pytest.mark.parametrize("what, words, line", [(halved, "a loop with more than 1025 branches, which tracing does not leave", "while x > 1"),
                                               (sorted_or_not, "torch's sort: there is no such function", "g.sort()")])
def test_no_code_hides_what_cannot_be_traced(what, words, line):
    with pytest.raises(RuleError, match=words) as caught:
        altgrad.optim.from_torch(torchclasses.Mistake, what=what)
    assert line in caught.value.text


def refused(self, group, p, g, state, total):
    if not torch.isfinite(g).all():
        raise RuntimeError("bad gradient")
    p.sub_(g, alpha=group["lr"])


def asserted(self, group, p, g, state, total):
    assert not torch.isnan(g).any()
    p.sub_(g, alpha=group["lr"])


@pytest.mark.parametrize("what, error", [(refused, "RuntimeError: bad gradient"), (asserted, "AssertionError.*")])
def test_an_error_that_data_decides_on_is_dropped_with_a_warning(what, error):
    with pytest.warns(UserWarning, match=f"test_from_torch_mistakes.py:\\d+ of Mistake raises {error}, where a number of the gradient"):
        made = altgrad.optim.from_torch(torchclasses.Mistake, what=what)
    param = torch.nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    made([param]).step()
    torch.testing.assert_close(param, torch.full((2,), 0.9))


def test_a_count_in_a_tensor_has_a_remainder():
    def every_third(self, group, p, g, state, total):
        state.setdefault("step", torch.tensor(0.0)).add_(1)
        if state["step"] % 3 == 0:
            p.sub_(g, alpha=group["lr"])
    param, twin = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    ours, theirs = altgrad.optim.from_torch(torchclasses.Mistake, what=every_third)([param]), torchclasses.Mistake([twin], what=every_third)
    for _ in range(7):
        param.grad, twin.grad = torch.ones(2), torch.ones(2)
        ours.step()
        with torch.no_grad():
            theirs.step()
    assert torch.equal(param, twin) and param[0] < 1


@pytest.mark.parametrize("name, words, line", [
    ("Muon", r"bfloat16\(\) in the code of a step: elements are float32", "bfloat16()"),
    ("SparseAdam", "SparseAdam does not support dense gradients", "raise RuntimeError"),
    ("LBFGS", "missing 1 required positional argument: 'closure'", "torch.no_grad")])
def test_torchs_own_that_are_no_rules_are_refused_at_torchs_line(name, words, line):
    with pytest.raises(RuleError, match=words) as caught:
        altgrad.optim.from_torch(getattr(torch.optim, name))
    assert line in caught.value.text and "torch/optim" in caught.value.filename


def test_what_is_no_such_class_or_lacks_an_argument():
    with pytest.raises(TypeError, match="from_torch takes a class of torch.optim's kind, not 3"):
        altgrad.optim.from_torch(3)
    with pytest.raises(TypeError, match=r"from_torch\(Lars\): .*missing 1 required positional argument: 'lr'"):
        altgrad.optim.from_torch(torchclasses.Lars)
    with pytest.raises(TypeError, match=r"the class has its storage already: from_torch\(SGD, storage=…\)"):
        altgrad.optim.from_torch(torch.optim.SGD)([torch.nn.Parameter(torch.ones(2))], storage="states=bf16")


@pytest.mark.parametrize("key, value, error", [("lr", "fast", "lr is 'fast', not a number"), ("lr", float("nan"), "lr is nan, not a number"),
                                               ("betas", (0.9, "a"), r"betas is \(0.9, 'a'\), not a number"), ("lr", [], "lr is ")])
def test_a_number_that_becomes_none(key, value, error):
    param = torch.nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    optimizer = altgrad.optim.from_torch(torch.optim.Adamax)([param])
    optimizer.step()
    optimizer.param_groups[0][key] = value
    with pytest.raises(TypeError, match=error):
        optimizer.step()


def test_sizes_of_a_filter_are_refused_when_its_group_is_made():
    made = altgrad.optim.from_torch(torch.optim.Adafactor)
    with pytest.raises(RuleError, match="the sizes of a parameter of 4 dimensions: there are those of vectors and matrices"):
        made([torch.nn.Parameter(torch.ones(2, 3, 4, 5))])


def test_dimensions_that_the_code_asks_for_are_those_of_a_group():
    def centred(self, group, p, g, state, total):
        p.sub_(g - g.mean(dim=tuple(range(1, g.dim())), keepdim=True) if g.dim() > 1 else g, alpha=group["lr"])
    made = altgrad.optim.from_torch(torchclasses.Mistake, what=centred)
    matrix, vector = torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="asks how many dimensions a parameter has: put vectors and matrices into groups"):
        made([matrix, vector])
    optimizer = made([dict(params=[matrix]), dict(params=[vector])])
    matrix.grad, vector.grad = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]), torch.tensor([1.0, 2.0, 3.0])
    optimizer.step()
    torch.testing.assert_close(matrix, torch.tensor([[1.1, 1.0, 0.9], [1.0, 1.0, 1.0]]))
    torch.testing.assert_close(vector, torch.tensor([0.9, 0.8, 0.7]))
