"""altgrad under Accelerate: prepare() as usual, no clip_grad_norm_, and accumulation."""

import sys

import digits
import torch
from accelerate import Accelerator

import altgrad

WORDS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "no"}


def main(precision="auto"):
    amp = digits.PRECISIONS[precision]()
    accelerator = Accelerator(mixed_precision=WORDS[amp.dtype], cpu=amp.device_type == "cpu",
                              gradient_accumulation_steps=2)
    digits.check(accelerator, amp)
    train, test = digits.load()
    net = digits.network()
    optimizer = altgrad.optim.AdamW(net.parameters(), lr=digits.LR, max_grad_norm=digits.CLIP, fused_amp=True)
    net, optimizer, batches = accelerator.prepare(net, optimizer, digits.loader(train))
    for _ in range(digits.EPOCHS):
        for x, y in batches:
            with accelerator.accumulate(net):
                accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
                optimizer.step()
                optimizer.zero_grad()
    print(f"norm of the last gradients {optimizer.optimizer.grad_norm.item():.3f}")
    print(f"accuracy {digits.accuracy(net, test):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
