"""Trains the digits under accelerate's FSDP2, as each process of torchrun; rank 0 writes what it found to a file.

    torchrun --nproc-per-node 2 accelerated.py FILE
"""

import gc
import sys

import digits
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor

import altgrad

STEPS = 12


def fsdp2(state_dict_type):
    accelerator = Accelerator(cpu=True)
    # Accelerate takes DDP on a CPU, whatever it was asked for.
    accelerator.state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="no_wrap", cpu_ram_efficient_loading=False, state_dict_type=state_dict_type)
    assert accelerator.is_fsdp2
    return accelerator


def adamw(kind):
    return lambda model: kind(model.parameters(), lr=digits.LR, weight_decay=0.1)


def muon(kind):
    """Matrices and vectors in groups of their own."""
    def make(model):
        split = [[param for param in model.parameters() if (param.ndim > 1) is whole] for whole in (True, False)]
        return kind([{"params": split[0]}, {"params": split[1], "use_muon": False, "lr": digits.LR}], lr=0.02,
                    orthogonalize=altgrad.optim.NewtonSchulz(dtype=torch.float32))
    return make


MAKES = {"DistAdamW": adamw(altgrad.distributed.DistAdamW), "DistMuon": muon(altgrad.distributed.DistMuon)}


def batches(rank, ranks):
    x, y = digits.load()
    own = [slice(step * digits.BATCH + rank, (step + 1) * digits.BATCH, ranks) for step in range(STEPS)]
    return [(x[part], y[part]) for part in own]


def fit(make, kind="SHARDED_STATE_DICT", saves=None, loads=None):
    """(losses, parameters) of a fit; it may be saved in its middle, or begin there."""
    accelerator, net = fsdp2(kind), digits.network()
    model, optimizer = accelerator.prepare(net, make(net))
    if loads:
        accelerator.load_state(loads)
    losses, every = [], batches(accelerator.process_index, accelerator.num_processes)
    for step in range(STEPS // 2 if loads else 0, STEPS):
        if saves and step == STEPS // 2:
            if kind == "FULL_STATE_DICT":  # rank 0 alone saves
                getattr(optimizer.optimizer, "consolidate_state_dict", int)()
            accelerator.save_state(saves)
        loss = digits.loss_of(model, every[step])
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
    assert all(isinstance(param, DTensor) for group in optimizer.param_groups for param in group["params"])
    return losses, [param.full_tensor().detach() for param in model.parameters()]


def main(path):
    torch.set_num_threads(1)
    found = {"torch's AdamW": fit(adamw(torch.optim.AdamW)), "AdamW": fit(adamw(altgrad.optim.AdamW))}
    for kind in ("SHARDED_STATE_DICT", "FULL_STATE_DICT"):
        for name, make in MAKES.items():
            found[name] = fit(make, kind, saves=f"{path}.{kind}.{name}")
            found[name, kind] = fit(make, kind, loads=f"{path}.{kind}.{name}")
    if torch.distributed.get_rank() == 0:
        torch.save(found, path)
    torch.distributed.barrier()
    gc.collect()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
