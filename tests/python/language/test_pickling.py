"""Rules, classes and optimizers pickle, and what a class needs is in its pickle, not in the function."""

import pickle
import subprocess
import sys

import rules
import torch

import altgrad.language as ag


def test_a_rule_pickles_by_its_name_as_a_function_does():
    assert pickle.loads(pickle.dumps(rules.adamw)) is rules.adamw
    chosen = pickle.loads(pickle.dumps(rules.adamw.choose(amsgrad=True)))
    assert chosen.options == dict(amsgrad=True, maximize=False) and chosen.text == rules.adamw.choose(amsgrad=True).text != rules.adamw.text


def test_a_class_and_its_optimizer_pickle():
    made = rules.adamw.optimizer("exp_avg=bf16", "amsgrad")
    assert pickle.loads(pickle.dumps(made)) is made
    param = torch.nn.Parameter(torch.ones(4))
    param.grad = torch.full((4,), 0.5)
    optimizer = made([param], betas=(0.5, 0.9))
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    assert type(again) is made and again.param_groups[0]["betas"] == (0.5, 0.9)
    for one in (optimizer, again):
        twin = one.param_groups[0]["params"][0]
        twin.grad = torch.full((4,), 0.25)
        one.step()
    assert torch.equal(param, twin)


def test_another_process_needs_no_function(tmp_path):
    @ag.rule
    def f(p: ag.Param, g: ag.Grad, *, lr=0.5, pair=(1.0, 2.0)):
        return p - lr * pair[1] * g
    (tmp_path / "class").write_bytes(pickle.dumps(f.optimizer()))
    code = """import pickle, sys, torch
p = torch.nn.Parameter(torch.ones(3)); p.grad = torch.ones(3)
optimizer = pickle.load(open(sys.argv[1], "rb"))([p], pair=(0.0, 4.0)); optimizer.step(); print(p.tolist())"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "class"], capture_output=True, text=True)
    assert done.stdout == "[-1.0, -1.0, -1.0]\n", done.stderr
