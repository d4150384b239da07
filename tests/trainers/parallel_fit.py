"""Fits the digits under Lightning's ModelParallelStrategy and DDPStrategy, as each process of torchrun; rank 0 writes a file.

    torchrun --nproc-per-node 2 parallel_fit.py FILE
"""

import gc
import sys

import digits
import torch
from fits import CLIP, Digits
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import altgrad

COUNT = 8 * digits.BATCH
MAKES = {"torch's AdamW": torch.optim.AdamW, "AdamW": altgrad.optim.AdamW, "DistAdamW": altgrad.distributed.DistAdamW,
         "DistMuon": altgrad.distributed.DistMuon}
SIZES = {"FSDP2": (2, 1), "TP": (1, 2), "DDP": (2, 1)}  # of the data's and the tensors' dimension


class Parallel(Digits):
    """Is laid out where Lightning asks for it, and makes its optimizer of DTensors."""

    def configure_model(self):
        if self.device_mesh is None:
            return
        data, tensor = self.device_mesh["data_parallel"], self.device_mesh["tensor_parallel"]
        if tensor.size() > 1:
            parallelize_module(self.net, tensor, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        if data.size() > 1:
            for layer in (self.net[0], self.net[2], self.net):
                fully_shard(layer, mesh=data)

    def configure_optimizers(self):
        if self._make.func is not altgrad.distributed.DistMuon:
            return self._make(self.net.parameters())
        split = [[param for param in self.net.parameters() if (param.dim() > 1) is matrix] for matrix in (True, False)]
        return self._make([{"params": split[0], "lr": 0.02}, {"params": split[1], "use_muon": False}])


def fit(kind, way, epochs, resumed=None, saved=None, whole=False):
    data, tensor = SIZES[way]
    clips = way == "DDP" and kind.__module__.startswith("altgrad.distributed")  # which leaves no gradient to Lightning's clip
    module = Parallel(kind, weight_decay=0.1, **{"max_grad_norm": CLIP} if clips else {})
    strategy = DDPStrategy() if way == "DDP" else ModelParallelStrategy(data, tensor, save_distributed_checkpoint=not whole)
    trainer = Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=epochs, logger=False,
                      gradient_clip_val=None if clips else CLIP, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False)
    numbers = torch.utils.data.TensorDataset(*[part[:COUNT] for part in digits.load()])
    trainer.fit(module, torch.utils.data.DataLoader(numbers, batch_size=digits.BATCH // data), ckpt_path=resumed)
    if saved:
        trainer.save_checkpoint(saved)
    return [(param.full_tensor() if hasattr(param, "full_tensor") else param).detach() for param in module.net.parameters()]


def main(path):
    torch.set_num_threads(1)
    found = {}
    for way in SIZES:
        for name, kind in MAKES.items():
            found[way, name] = fit(kind, way, 2)
            place = f"{path}.{way}.{name}"
            fit(kind, way, 1, saved=place)
            found[way, name, "resumed"] = fit(kind, way, 2, resumed=place)
    if torch.distributed.get_rank() == 0:
        torch.save(found, path)
    torch.distributed.barrier()
    gc.collect()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
