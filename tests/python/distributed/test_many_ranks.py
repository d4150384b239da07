"""A sum over ranks takes as long on the host, and as few kernels, for 4,096 of them as for 8."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, time, torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
import altgrad
from altgrad._binding.rank_sets import RankSet

dist.init_process_group("fake", rank=0, world_size=int(sys.argv[1]), store=FakeStore())
ranks, found = RankSet([dist.group.WORLD]), {}

class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))

for name, call in {"sum": lambda: ranks.sum(torch.ones(())), "verdict": lambda: ranks.worst(torch.ones(()))}.items():
    with Operators() as operators:
        call()
    lists = any(torch.is_tensor(of) is False and "Tensor[]" in str(of.type) and of.name != "tensors"
                for function in operators.seen for of in function._schema.arguments)
    work = [str(function) for function in operators.seen if not function.is_view and "detach" not in str(function)]
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    found[name] = work, lists, min(times)
optimizer = altgrad.optim.LAMB([torch.nn.Parameter(torch.ones(5000))], max_grad_norm=1.0, process_group=dist.group.WORLD)
optimizer.param_groups[0]["params"][0].grad = torch.ones(5000)
optimizer.step()
times = []
for _ in range(100):
    begin = time.perf_counter()
    optimizer.step()
    times.append(time.perf_counter() - begin)
found["step"] = [], False, min(times)
print(json.dumps(found))
"""


def found(count):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(count)], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def of_counts():
    return {count: found(count) for count in (8, 512, 4096)}


def test_kernels_do_not_depend_on_the_number(of_counts):
    for name in ("sum", "verdict"):
        works = [of[name][0] for of in of_counts.values()]
        assert works[0] == works[1] == works[2] and len(works[0]) <= 1 + 3, works[0]  # the first makes the number
        assert not any(of[name][1] for of in of_counts.values())


def test_host_time_grows_by_less_than_a_microsecond_a_rank(of_counts):
    for name in ("sum", "verdict", "step"):
        grown = of_counts[4096][name][2] - of_counts[8][name][2]
        assert grown < 1e-6 * (4096 - 8), (name, {count: of[name][2] for count, of in of_counts.items()})
