"""Trains the digits with DeepSpeed's engine and an optimizer of the client's, as each process of torchrun; rank 0 writes what
it found to a file.

    torchrun --nproc-per-node 2 deepspeed_fit.py FILE
"""

import os
import sys

import deepspeed
import digits
import torch
import torch.distributed as dist

import altgrad

STEPS, HALF = 8, 4
MAKES = {"torch's AdamW": torch.optim.AdamW, "AdamW": altgrad.optim.AdamW, "AdamW8bit": altgrad.optim.AdamW8bit}


def fit(make, stage, saved=None, loaded=None):
    net = digits.network()
    config = dict(train_micro_batch_size_per_gpu=digits.BATCH // dist.get_world_size(), gradient_accumulation_steps=1,
                  gradient_clipping=0.5, zero_optimization={"stage": stage}, zero_allow_untested_optimizer=True,
                  zero_force_ds_cpu_optimizer=False, steps_per_print=1 << 30)
    optimizer = make(net.parameters(), lr=digits.LR, weight_decay=0.1)
    engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=config)
    if loaded:
        assert engine.load_checkpoint(loaded)[0]
    x, y = digits.load()
    for step in range(HALF if loaded else 0, STEPS):
        if saved and step == HALF:
            engine.save_checkpoint(saved)
        part = slice(step * digits.BATCH + dist.get_rank(), (step + 1) * digits.BATCH, dist.get_world_size())
        engine.backward(digits.loss_of(engine, (x[part], y[part])))
        engine.step()
    with deepspeed.zero.GatheredParameters(list(net.parameters()), enabled=stage == 3):
        return [param.detach().clone() for param in net.parameters()]


def main(path):
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    found = {}
    for stage in range(4):
        for name, make in MAKES.items():
            found[name, stage] = fit(make, stage, saved=f"{path}.{stage}.{name}")
            found[name, stage, "resumed"] = fit(make, stage, loaded=f"{path}.{stage}.{name}")
    if dist.get_rank() == 0:
        torch.save(found, path)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("LOCAL_SIZE", os.environ["LOCAL_WORLD_SIZE"])  # which its CPU accelerator asks for
    main(sys.argv[1])
