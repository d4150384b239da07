#!/usr/bin/env python3
"""Prints what training a model of seven billion parameters keeps in memory under each optimizer, in GB.

The shapes are those of Llama 2 7B, and the bytes those of a step on small tensors of each kind: nothing is assumed. "A
load" is the most while a checkpoint of the optimizer is loaded whose states lie in memory already: parameters, states and
what load_state_dict makes besides. Activations are in no column.
"""
import argparse
import contextlib
import importlib.util
import pathlib
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = pathlib.Path(__file__).resolve().parent.parent
if not importlib.util.find_spec("altgrad"):
    sys.path.insert(0, str(ROOT / "runtime" / "python"))
from altgrad import optim  # noqa: E402

LAYER = {"q": (4096, 4096), "k": (4096, 4096), "v": (4096, 4096), "o": (4096, 4096), "gate": (11008, 4096),
         "up": (11008, 4096), "down": (4096, 11008), "norm1": (4096,), "norm2": (4096,)}
SHAPES = {"embedding": (32000, 4096), "head": (32000, 4096), "norm": (4096,),
          **{f"{index}.{name}": shape for index in range(32) for name, shape in LAYER.items()}}
FEW = {"embedding": (64, 256), "matrix": (128, 256), "vector": (4096,)}  # a step on these says what an element takes
SPLIT = "master=bf16+i16 states=f32"


def adamw_beside(kind, **words):
    """Muon for the matrices of layers, AdamW for the rest."""
    return lambda named: kind([{"params": [p for name, p in named.items() if name == "matrix"]},
                               {"params": [p for name, p in named.items() if name != "matrix"], "use_muon": False}], **words)


def plain(kind, **words):
    return lambda named: kind(list(named.values()), **words)


# (what it is, how it is made, dtype of the model)
ROWS = [
    ("torch.optim.AdamW, float32", plain(torch.optim.AdamW), torch.float32),
    ("torch.optim.AdamW, bfloat16", plain(torch.optim.AdamW), torch.bfloat16),
    ('AdamW, bfloat16, `storage="master=f32"`', plain(optim.AdamW, storage="master=f32"), torch.bfloat16),
    (f'AdamW, bfloat16, `storage="{SPLIT}"`', plain(optim.AdamW, storage=SPLIT), torch.bfloat16),
    ('AdamW8bit, bfloat16, `storage="param=bf16,stochastic"`', plain(optim.AdamW8bit, storage="param=bf16,stochastic"),
     torch.bfloat16),
    ('AdamW4bit, bfloat16, `storage="param=bf16,stochastic"`', plain(optim.AdamW4bit, storage="param=bf16,stochastic"),
     torch.bfloat16),
    ('Muon and AdamW, bfloat16, `storage="master=f32"`', adamw_beside(optim.Muon, storage="master=f32"), torch.bfloat16),
]
SIDES = "row_", "column_"  # how the names of squares begin
# Those with squares, which are not in the README.
SQUARES = [("SOAP, float32", plain(optim.SOAP), torch.float32),
           ("Shampoo, float32, `max_precond_dim=8192`", plain(optim.Shampoo, max_precond_dim=8192), torch.float32)]


class Made(TorchDispatchMode):
    """Counts the bytes of all memory that torch's operators make."""

    bytes = 0

    def __torch_dispatch__(self, operator, types, given=(), words=None):
        result = operator(*given, **(words or {}))
        lying, made = ({of.untyped_storage().data_ptr(): of.untyped_storage().nbytes() for of in tree_leaves(values)
                        if isinstance(of, torch.Tensor)} for values in ((given, words), result))
        self.bytes += sum(size for place, size in made.items() if place not in lying)
        return result


def kind_of(name, shape):
    return "vector" if len(shape) == 1 else "embedding" if name in ("embedding", "head") else "matrix"


def squares_of(held):
    """Bytes of squares for each of rows x rows, and of columns x columns."""
    return [sum(value.element_size() for key, value in held.items() if key.startswith(of)) for of in SIDES]


def bytes_of(make, dtype):
    """{kind: (bytes of an element in states, in masters)}, {kind: what squares_of says}, the longest side of a square, and
    what a load makes for a byte of states."""
    named = {name: torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for name, shape in FEW.items()}
    one, other = make(named), make(named)
    for param in named.values():
        param.grad = torch.ones_like(param)
    one.step()
    kept, squares = {}, {}
    for name, param in named.items():
        squares[name] = squares_of(one.state[param])
        own = {key: value.nbytes / param.numel() for key, value in one.state[param].items()
               if value.dim() and not key.startswith(SIDES)}
        masters = sum(size for key, size in own.items() if key in ("master", "remainder"))
        kept[name] = sum(own.values()) - masters, masters
    saved, made = one.state_dict(), Made()
    with made:
        other.load_state_dict(saved)
    whole = sum(value.nbytes for held in one.state.values() for value in held.values())
    return kept, squares, one.param_groups[0].get("max_precond_dim", 0), made.bytes / whole


def figures(make, dtype):
    """GB of (parameters, gradients, states, masters, all of them, a load)."""
    kept, squares, longest, extra = bytes_of(make, dtype)
    counts = dict.fromkeys(FEW, 0)
    for name, shape in SHAPES.items():
        counts[kind_of(name, shape)] += torch.Size(shape).numel()
    params = sum(counts.values()) * dtype.itemsize
    states, masters = (sum(counts[kind] * kept[kind][place] for kind in counts) for place in (0, 1))
    states += sum(side * side * own for name, shape in SHAPES.items()
                  for side, own in zip(shape, squares[kind_of(name, shape)]) if side <= longest)
    return [value / 1e9 for value in (params, params, states, masters, 2 * params + states + masters,
                                      params + (1 + extra) * (states + masters))]


def rows(of=ROWS):
    with contextlib.suppress(RuntimeError):
        torch.set_num_threads(1)
    torch.manual_seed(0)
    return [(words, *figures(make, dtype)) for words, make, dtype in of]


HEAD = ["", "parameters", "gradients", "states", "masters", "together", "a load"]


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    count = sum(torch.Size(shape).numel() for shape in SHAPES.values())
    print(f"{count:,} parameters; GB\n{HEAD[0]:<58}" + "".join(f"{word:>12}" for word in HEAD[1:]))
    for words, *values in rows(ROWS + SQUARES):
        print(f"{words.replace('`', ''):<58}" + "".join(f"{value:>12.1f}" for value in values))


if __name__ == "__main__":
    main()
