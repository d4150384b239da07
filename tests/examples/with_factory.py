"""altgrad under Hugging Face's Trainer by a factory: Muon for the inner matrices, AdamW for the rest, one program."""

import tempfile

import digits
import torch
from transformers import Trainer, TrainingArguments
from with_trainer import Digits

import altgrad


class MuonAndAdamW:
    """The Trainer makes one of these, and calls it with the model."""

    def __call__(self, model, lr, adamw_lr, **options):
        rows = [param for name, param in model.named_parameters() if param.ndim == 2 and "net.2" not in name]
        chosen = {id(param) for param in rows}
        rest = [param for param in model.parameters() if id(param) not in chosen]
        rest = {"params": rest, "use_muon": False, "lr": adamw_lr}
        return altgrad.optim.Muon([{"params": rows}, rest], lr=lr, **options)


def main():
    train, test = digits.load()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=digits.EPOCHS, per_device_train_batch_size=digits.BATCH, report_to=[],
            save_strategy="no", disable_tqdm=True, use_cpu=not torch.cuda.is_available(), max_grad_norm=0)
        trainer = Trainer(Digits(), arguments, train_dataset=[{"x": x, "labels": y} for x, y in train],
                          optimizer_cls_and_kwargs=(MuonAndAdamW, dict(lr=0.02, adamw_lr=digits.LR)))
        trainer.train()
    print(f"accuracy {digits.accuracy(trainer.model.net, test):.3f}")


if __name__ == "__main__":
    main()
