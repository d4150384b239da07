"""altgrad under Lightning's Trainer: gradient_clip_val beside float16 and a fused step."""

import sys

import digits
import torch
from lightning.pytorch import LightningModule, Trainer

import altgrad
from altgrad.amp.lightning import FusedPrecision, StepStatistics


class Digits(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = digits.network()

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return altgrad.optim.AdamW(self.parameters(), lr=digits.LR)


def main(precision="auto"):
    amp = digits.PRECISIONS[precision]()
    train, test = digits.load()
    model = Digits()
    trainer = Trainer(accelerator="gpu" if amp.device_type == "cuda" else amp.device_type, devices=1,
                      plugins=[FusedPrecision(amp)], gradient_clip_val=digits.CLIP, callbacks=[StepStatistics()],
                      max_epochs=digits.EPOCHS, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, digits.loader(train))
    print({name: round(value.item(), 3) for name, value in trainer.callback_metrics.items()})
    print(f"accuracy {digits.accuracy(model.net, test):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
