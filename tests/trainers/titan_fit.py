"""Trains the digits under FSDP2 with torchtitan's container, schedules, clip and checkpoint manager.

    torchrun --nproc-per-node RANKS titan_fit.py FOLDER FIRST

begins at step FIRST, from the checkpoint before it unless that is 0; rank 0 writes FOLDER/RANKS.pt, {name: parameters}.
"""

import gc
import sys
from pathlib import Path

import digits
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.optimizer import OptimizersContainer, ParamGroupConfig
from torchtitan.components.optimizer.lr_scheduler import LRSchedulersContainer
from torchtitan.distributed.utils import clip_grad_norm_

import altgrad

STEPS, HALF = 8, 4
PATTERNS = {"AdamW": [(r"bias$", dict(lr=digits.LR, weight_decay=0.0)), (".*", dict(lr=digits.LR, weight_decay=0.1))],
            "Muon": [(r"bias$", dict(lr=digits.LR, use_muon=False)), (".*", dict(lr=0.02))]}
# What the container finds by the name, and whose patterns it has.
MAKES = {"torch's AdamW": (torch.optim.AdamW, "AdamW"), "AdamW": (altgrad.optim.AdamW, "AdamW"),
         "DistAdamW": (altgrad.distributed.DistAdamW, "AdamW"), "Muon": (altgrad.optim.Muon, "Muon"),
         "AdamW8bit": (altgrad.optim.AdamW8bit, "AdamW")}


class Container(OptimizersContainer):
    """torchtitan's, which knows torch's classes alone by their names."""

    @staticmethod
    def _resolve_optimizer_factory(name):
        return MAKES[name][0]


def made(name, folder):
    net = digits.network()
    for layer in (net[0], net[2], net):
        fully_shard(layer)
    groups = [ParamGroupConfig(pattern=pattern, optimizer_name=name, optimizer_kwargs=words)
              for pattern, words in PATTERNS[MAKES[name][1]]]
    container = Container(Container.Config(param_groups=groups, implementation="for-loop"), model_parts=[net])
    schedules = LRSchedulersContainer.Config(warmup_steps=3).build(optimizers=container, training_steps=STEPS)
    manager = CheckpointManager(CheckpointManager.Config(enable=True, folder=name, interval=HALF, keep_latest_k=0), dataloader=None,
                                model_parts=[net], optimizers=container, lr_schedulers=schedules, states={}, sd_adapter=None,
                                base_folder=folder)
    manager.states.pop("dataloader")
    return net, container, schedules, manager


def fit(name, folder, first):
    net, container, schedules, manager = made(name, folder)
    if first:
        assert manager.load(first)
    x, y = digits.load()
    for step in range(first, STEPS):
        part = slice(step * digits.BATCH + dist.get_rank(), (step + 1) * digits.BATCH, dist.get_world_size())
        container.zero_grad()
        digits.loss_of(net, (x[part], y[part])).backward()
        clip_grad_norm_(net.parameters(), 0.5)
        container.step(), schedules.step()
        manager.save(step + 1)
    return [param.full_tensor().detach() for param in net.parameters()]


def main(folder, first):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {name: fit(name, folder, first) for name in MAKES}
    if dist.get_rank() == 0:
        torch.save(found, Path(folder, f"{dist.get_world_size()}.pt"))
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
