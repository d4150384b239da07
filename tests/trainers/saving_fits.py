"""Fits of trainers on two processes, which save on rank 0 alone, and go on from that; rank 0 writes what it found to a file.

    torchrun --nproc-per-node 2 saving_fits.py lightning|transformers FILE
"""

import gc
import sys
from pathlib import Path

import digits
import torch

import altgrad

COUNT = 8 * digits.BATCH


def data():
    return torch.utils.data.TensorDataset(*[part[:COUNT] for part in digits.load()])


def of_lightning(make, path):
    """{"whole": parameters after two epochs, "resumed": those of the same in two fits}"""
    from fits import Digits
    from lightning.pytorch import Trainer

    def fit(epochs, resumed=None, saved=None):
        module = Digits(make, weight_decay=0.1)
        trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=epochs, logger=False,
                          enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=digits.BATCH // 2), ckpt_path=resumed)
        if saved:
            trainer.save_checkpoint(saved)
        return [param.detach() for param in module.parameters()]

    fit(1, saved=path)
    return {"whole": fit(2), "resumed": fit(2, resumed=path)}


class Net(torch.nn.Module):
    """In the form that the Trainer asks for."""

    def __init__(self):
        super().__init__()
        self.net = digits.network()

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.net(x), labels)}


def of_transformers(make, path):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Whole(TrainerCallback):
        """As the guide has it."""

        def on_step_end(self, args, state, control, optimizer=None, **rest):
            if control.should_save:
                optimizer.optimizer.consolidate_state_dict()

        on_epoch_end = on_step_end

    class OfDigits(Trainer):
        def create_optimizer(self, *positional):
            if self.optimizer is None:
                self.optimizer = make(self.model.parameters(), lr=digits.LR, weight_decay=0.1)
            return self.optimizer

    def fit(resumed=None):
        arguments = TrainingArguments(
            path, use_cpu=True, max_steps=8, save_steps=4, per_device_train_batch_size=digits.BATCH // 2, report_to=[],
            disable_tqdm=True, remove_unused_columns=False, lr_scheduler_type="constant", max_grad_norm=0.5, logging_steps=100)
        callbacks = [Whole()] if hasattr(make, "consolidate_state_dict") else []
        collate = lambda rows: {"x": torch.stack([x for x, _ in rows]), "labels": torch.stack([y for _, y in rows])}
        trainer = OfDigits(Net(), arguments, train_dataset=data(), data_collator=collate, callbacks=callbacks)
        trainer.train(resume_from_checkpoint=resumed)
        return [param.detach() for param in trainer.model.parameters()]

    return {"whole": fit(), "resumed": fit(str(Path(path) / "checkpoint-4"))}


def main(which, path):
    torch.set_num_threads(1)
    fits = {"lightning": of_lightning, "transformers": of_transformers}[which]
    found = {make.__name__: fits(make, f"{path}.{make.__module__}") for make in
             (torch.optim.AdamW, altgrad.distributed.DistAdamW)}
    if torch.distributed.get_rank() == 0:
        torch.save([found["AdamW"], found["DistAdamW"]], path)
    torch.distributed.barrier()
    gc.collect()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
