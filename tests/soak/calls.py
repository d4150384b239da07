"""Calls of the C ABI in any order, with arguments of any sense: a status with words, or torch's numbers."""

import ctypes

import torch

from altgrad._bundle import compile_sets
from altgrad._library import Error, library
from altgrad._plan import Plan
from altgrad._rule import Rule

NAMES = [b"", b"w", b"g", b"m", b"v", b"lr", b"bf16", b"f16", b"f32", b"ocp.e4m3fn", b"nonsense", b"\xff", None]
COUNTS = [-(2**63), -1, 0, 1, 2, 3, 1 << 40, 2**63 - 1]
OPTIONS = ["--set=rule=adamw param=f32 grad=f32 states=f32 step=f32", "--set=grad=f32", "--clip", "--target=sm_80",
           "--target=x86-64-v3", "--nonsense", "--set=", "set", "--emit=ptx", "-o x", "\x01", "--rule=adamw", "--scaler"]


def misused(life, memory):
    """One call that makes no sense: words, and `memory`, a buffer of 4096 bytes, is all that may be written."""
    dice, native = life.dice, library()
    name, count = dice.choice(NAMES), dice.choice(COUNTS)
    at, few = dice.choice([None, memory]), dice.choice([-1, 0, 1, 7, 64])
    handle = ctypes.c_void_p()
    calls = {
        "format_bits": lambda: native.altgrad_format_bits(name),
        "encode": lambda: native.altgrad_format_encode(name, count & 1, at, memory, few),
        "decode": lambda: native.altgrad_format_decode(name, at, memory, few),
        "take_edits": lambda: native.altgrad_take_edits(name, at, memory + 1024, few),
        "load": lambda: native.altgrad_load(dice.choice([b"/", b"/nowhere", b"", b"/proc/self/mem"]), ctypes.byref(handle)),
        "compile": lambda: native.altgrad_compile(
            dice.choice([None, b"", b"module", b"\xff\x00", b"altgrad.rule @x("]), few if few > 0 and few < 5 else 0,
            "\n".join(dice.sample(OPTIONS, dice.randint(0, 3))).encode(), None, ctypes.byref(handle)),
    }
    what = dice.choice(list(calls))
    try:
        calls[what]()
        life.said[f"taken: {what}"] += 1
    except Error as error:
        assert str(error).strip(), what
        life.said[f"refused: {what}"] += 1


def bind(life, plan, bundle, tensors, misuse):
    """Binds a plan as it should be, or with one call that is wrong or left out."""
    dice, part = life.dice, bundle.sets[0]
    streams = [part.param, part.grad, *part.states]
    calls = [lambda: plan.bind_tensors([(tensors[0].numel(), 0, 0, 0, (0, 0), 1)], 1)]
    for stream, tensor in zip(streams, tensors):
        calls.append(lambda stream=stream, tensor=tensor: plan.bind_stream(stream.name, [tensor.data_ptr()]))
    cells = {scalar.name: torch.tensor(scalar.default, dtype=torch.float64) for scalar in part.hypers}
    for name, cell in cells.items():
        calls.append(lambda name=name, cell=cell: plan.bind_scalar(name, [cell.data_ptr()]))
    count = torch.zeros(())
    calls.append(lambda: plan.bind_scalar(part.step.name, [count.data_ptr()]))
    if misuse:
        place, kind = dice.randrange(len(calls)), dice.choice(["out", "null", "many", "name", "twice", "late"])
        name = dice.choice([stream.name for stream in streams])
        wrong = {"out": lambda: None, "null": lambda: plan.bind_stream(name, [0]),
                 "many": lambda: plan.bind_stream(name, [tensors[0].data_ptr()] * dice.choice([0, 2, 9])),
                 "name": lambda: plan.bind_stream(dice.choice([b"", b"nonsense", b"lr"]), [tensors[0].data_ptr()]),
                 "twice": lambda: plan.bind_tensors([(dice.choice([-1, 0, 5]), dice.choice([-1, 0, 3]), 0, 0, (0, 0), 1)],
                                                    dice.choice(COUNTS)),
                 "late": calls[place]}[kind]
        calls[place] = wrong
    for call in calls:
        call()
    return cells, count


def live(life):
    dice = life.dice
    memory = ctypes.create_string_buffer(4096)
    for _ in range(dice.randint(1, 12)):
        misused(life, ctypes.addressof(memory))
    bundle = compile_sets(["rule=adamw param=f32 grad=f32 states=f32 step=f32"], [Rule("adamw")])
    tensors = [torch.randn(dice.choice([1, 7, 4096, 5000])) for _ in range(1)]
    tensors += [torch.randn_like(tensors[0]), torch.zeros_like(tensors[0]), torch.zeros_like(tensors[0])]
    expected = torch.nn.Parameter(tensors[0].clone())
    expected.grad = tensors[1].clone()
    before = tensors[0].clone()
    plan, misuse = Plan(bundle, threads=dice.choice([1, 1, 2])), dice.random() < 0.7
    try:
        held = bind(life, plan, bundle, tensors, misuse)
        size = plan.workspace_bytes()
        work = ctypes.create_string_buffer(size + 64)
        given = dice.choice([size, size, size, 0, max(0, size - 1)])
        plan.run(-(-ctypes.addressof(work) // 64) * 64, given, dice.choice([0, 0, 0, -1, 99]), dice.choice([-1, -1, 99]))
    except Error as error:
        assert str(error).strip()
        assert torch.equal(before, tensors[0]), f"refused ({error}), and the parameter has changed"
        life.said["plans refused"] += 1
        return
    torch.optim.AdamW([expected], lr=held[0][next(s.name for s in bundle.sets[0].hypers if s.key == "lr")].item()).step()
    if not misuse:
        torch.testing.assert_close(tensors[0], expected.detach(), rtol=1e-4, atol=1e-6)
    life.said["plans run"] += 1
