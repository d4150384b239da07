"""altgrad under Hugging Face's Trainer: the optimizer clips, the Trainer does not."""

import sys
import tempfile

import digits
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import altgrad


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = digits.network()

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Norm(TrainerCallback):
    """Adds to each line of the log what the optimizer has measured."""

    def on_log(self, args, state, control, logs=None, optimizer=None, **kwargs):
        if optimizer is not None and "loss" in logs:
            logs["grad_norm"] = optimizer.optimizer.grad_norm.item()


def main(precision="auto"):
    amp = digits.PRECISIONS[precision]()
    train, test = digits.load()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=digits.EPOCHS, per_device_train_batch_size=digits.BATCH, report_to=[],
            save_strategy="no", logging_steps=50, disable_tqdm=True, use_cpu=amp.device_type == "cpu",
            bf16=amp.dtype == torch.bfloat16, fp16=amp.dtype == torch.float16,
            max_grad_norm=0)  # none of the Trainer's: that would be a pass over all gradients
        trainer = Trainer(
            Digits(), arguments, train_dataset=[{"x": x, "labels": y} for x, y in train], callbacks=[Norm()],
            optimizer_cls_and_kwargs=(altgrad.optim.AdamW, dict(
                lr=digits.LR, max_grad_norm=digits.CLIP, fused_amp=True)))
        digits.check(trainer.accelerator, amp)
        trainer.train()
    print(f"accuracy {digits.accuracy(trainer.model.net, test):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
