"""altgrad in a loop of your own: the dtype by the device, loss scale and clip inside the optimizer's step."""

import logging
import sys

import digits
import torch

import altgrad


def main(precision="auto"):
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO)
    amp = digits.PRECISIONS[precision]()
    train, test = digits.load()
    net = digits.network().to(amp.device_type)
    # fused_amp: the step reads the scaler's scale and verdict instead of a pass that unscales.
    optimizer = altgrad.optim.AdamW(net.parameters(), lr=digits.LR, max_grad_norm=digits.CLIP, fused_amp=True)
    scaler = amp.scaler()
    for _ in range(digits.EPOCHS):
        for x, y in digits.loader(train):
            with amp.autocast():
                loss = torch.nn.functional.cross_entropy(net(x.to(amp.device_type)), y.to(amp.device_type))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    print(f"norm of the last gradients {optimizer.grad_norm.item():.3f}")
    print(f"accuracy {digits.accuracy(net, test):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
