"""Holds altgrad's classes to torch's OptimizerInfo; prints how much of it ran.

Each configuration is compared with torch's for-loop over 7 steps of a small
network with a step without gradients and two with a frozen layer; parameters
and every state entry, with the tolerances of assert_close (torch.testing).
"""

import copy
import importlib.util
import sys
import types
import unittest
from pathlib import Path

import torch

if importlib.util.find_spec("expecttest") is None:
    # common_utils derives its TestCase from this; nothing here uses what it adds.
    stub = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stub
if importlib.util.find_spec("altgrad") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "runtime" / "python"))

from torch.testing._internal import common_optimizers as common  # noqa: E402
from torch.testing._internal.common_utils import TestCase  # noqa: E402

import altgrad  # noqa: E402

NAMES = ["AdamW", "Adam", "SGD", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adamax", "Adadelta", "Rprop", "ASGD"]
# The last two are stepped by torch's classes inside ours.
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64]
# Of torch.testing._internal.common_optimizers: configurations and error inputs per class on the CPU, torch 2.11.
CONFIGURATIONS = {"AdamW": 5, "Adam": 5, "SGD": 9, "Adagrad": 7, "RMSprop": 8,
                  "NAdam": 7, "RAdam": 6, "Adamax": 5, "Adadelta": 6, "Rprop": 5, "ASGD": 7}
ERRORS = {"AdamW": 12, "Adam": 12, "SGD": 7, "Adagrad": 7, "RMSprop": 7,
          "NAdam": 8, "RAdam": 8, "Adamax": 7, "Adadelta": 7, "Rprop": 7, "ASGD": 7}
# With foreach, fused and differentiable, where the class has them.
FLAGGED = {"AdamW": 15, "Adam": 15, "SGD": 27, "Adagrad": 21, "RMSprop": 16,
           "NAdam": 14, "RAdam": 12, "Adamax": 10, "Adadelta": 12, "Rprop": 10, "ASGD": 14}
HALF = (torch.bfloat16, torch.float16)


class Rounded:
    """For classes that torch has not fused: its for-loop in float32, rounded to the parameter's dtype."""

    def step(self):
        params = [p for group in self.param_groups for p in group["params"]]
        states = [v for held in self.state.values() for v in held.values() if v.dim()]
        tensors = [t for p in params for t in (p, p.grad) if t is not None] + states
        dtype = params[0].dtype
        for tensor in tensors:
            tensor.data = tensor.data.float()
        super().step()
        for held in self.state.values():
            tensors += [v for v in held.values() if v.dim()]
        for tensor in tensors:
            tensor.data = tensor.data.to(dtype)


class Suite(TestCase):
    executed = 0

    def matches_forloop(self, info, cls, dtype, config):
        """Ours beside torch's for-loop in float32, beside torch's fused in 16 bits."""
        tracker = common.TensorTracker()
        is_fused = "fused" in info.supported_impls
        reference = info.optim_cls if is_fused or dtype not in HALF else type(info.name, (Rounded, info.optim_cls), {})
        for kind in (reference, cls):
            ours = kind is cls
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sigmoid(),
                                        torch.nn.Linear(3, 1), torch.nn.Sigmoid()).to(dtype)
            kwargs = copy.deepcopy(config.kwargs)
            if not ours:
                kwargs["foreach"] = False
                if is_fused:
                    kwargs["fused"] = dtype in HALF
            optimizer = kind(model.parameters(), **kwargs)
            for step in range(7):
                optimizer.zero_grad()
                model[2].requires_grad_(step not in (3, 4))
                if step != 2:
                    model(torch.ones(4, 2, dtype=dtype)).abs().sum().backward()
                optimizer.step()
                for param in model.parameters():
                    states = [v for _, v in sorted(optimizer.state[param].items())
                              if isinstance(v, torch.Tensor)]
                    for tensor in (param, *[state if state.dim() else state.float() for state in states]):
                        tracker.pop_check_set(tensor, self) if ours else tracker.add(tensor)
        self.assertTrue(tracker.all_popped())
        Suite.executed += 1

    def refuses(self, cls, dtype, error):
        given = error.optimizer_error_input
        params = [torch.ones(2, 3, dtype=dtype)] if given.params is None else given.params
        make = lambda: cls(params, **given.kwargs)
        act = make().step if error.error_on is common.OptimizerErrorEnum.STEP_ERROR else make
        warns = issubclass(error.error_type, Warning)
        with (self.assertWarnsRegex if warns else self.assertRaisesRegex)(
                error.error_type, error.error_regex):
            act()
        Suite.executed += 1

    def accepts_flags(self, info, cls, dtype):
        """foreach=, fused= and differentiable= are accepted, and a step is a step."""
        for config in common._get_optim_inputs_including_global_cliquey_kwargs(
                torch.device("cpu"), dtype, info):
            params = [torch.nn.Parameter(torch.ones(2, 3, dtype=dtype))]
            if config.kwargs.get("differentiable"):
                params[0] = params[0].clone()
            optimizer = cls(params, **copy.deepcopy(config.kwargs))
            params[0].grad = torch.ones_like(params[0])
            optimizer.step()
            self.assertFalse(torch.equal(params[0], torch.ones(2, 3, dtype=dtype)))
            Suite.executed += 1

    def runTest(self):
        infos = {info.name: info for info in common.optim_db}
        for name in NAMES:
            info, cls = infos[name], getattr(altgrad.optim, name)
            for dtype in DTYPES:
                for config in info.optim_inputs_func(device="cpu", dtype=dtype):
                    with self.subTest(name=name, dtype=dtype, config=config):
                        self.matches_forloop(info, cls, dtype, config)
                for error in info.optim_error_inputs_func(device="cpu", dtype=dtype):
                    with self.subTest(name=name, dtype=dtype, error=error.optimizer_error_input):
                        self.refuses(cls, dtype, error)
            with self.subTest(name=name, flags=True):
                self.accepts_flags(info, cls, torch.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = unittest.TestResult()
    Suite().run(result)
    for _, trace in result.failures + result.errors:
        print(trace)
    expected = len(DTYPES) * (sum(CONFIGURATIONS.values()) + sum(ERRORS.values()))
    expected += sum(FLAGGED.values())
    print(f"executed {Suite.executed} of {expected} cases")
    sys.exit(0 if result.wasSuccessful() and Suite.executed == expected else 1)
