"""Fits the digits under Lightning's FSDPStrategy, as each process of torchrun; rank 0 writes the parameters to a file.

    torchrun --nproc-per-node 2 sharded_fit.py FILE
"""

import gc
import sys

import digits
import torch
from fits import CLIP, Digits
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import FSDPStrategy
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

import altgrad

COUNT = 10 * digits.BATCH


class OnCpu(FSDPStrategy):
    """A Trainer takes FSDPStrategy itself on GPUs alone, and FSDP wants to be told that the CPU is its device."""

    def _setup_model(self, model):
        return FSDP(model, mixed_precision=self.mixed_precision_config, device_id=torch.device("cpu"), **self.kwargs)


class Sharded(Digits):
    """Clips in the step of ours, which knows the other shards, and by FSDP's method for torch's class."""

    def configure_optimizers(self):
        if self._make.func is altgrad.optim.AdamW:
            return self._make(self.parameters(), max_grad_norm=CLIP, process_group=torch.distributed.group.WORLD)
        return self._make(self.parameters())

    def on_before_optimizer_step(self, optimizer):
        if not isinstance(optimizer, altgrad.optim.Optimizer):
            self.trainer.model.clip_grad_norm_(CLIP)


def fit(kind, epochs, resumed=None, saved=None):
    module = Sharded(kind, weight_decay=0.1)
    # FSDP's whole files read freed memory on the CPU.
    trainer = Trainer(accelerator="cpu", devices=2, strategy=OnCpu(state_dict_type="sharded"), max_epochs=epochs,
                      logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    data = torch.utils.data.TensorDataset(*[part[:COUNT] for part in digits.load()])
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=digits.BATCH // 2), ckpt_path=resumed)
    if saved:
        trainer.save_checkpoint(saved)
    with FSDP.summon_full_params(trainer.strategy.model):
        return [param.detach().clone() for param in trainer.strategy.model.parameters()]


def main(path):
    torch.set_num_threads(1)
    found = {"ours": fit(altgrad.optim.AdamW, 2), "torch's": fit(torch.optim.AdamW, 2)}
    found["half"] = fit(altgrad.optim.AdamW, 1, saved=path + ".ckpt")
    found["resumed"] = fit(altgrad.optim.AdamW, 2, resumed=path + ".ckpt")
    if torch.distributed.get_rank() == 0:
        torch.save(found, path)
    torch.distributed.barrier()
    gc.collect()  # trainers in circles hold the group, whose threads end with it, and abort an exit now and then
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
