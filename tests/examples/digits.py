"""What the examples share: scikit-learn's handwritten digits, and a small network."""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

from altgrad.amp import AmpConfig

PRECISIONS = {"auto": AmpConfig.auto, "fp16": AmpConfig.force_fp16, "fp32": AmpConfig.force_fp32}
EPOCHS, BATCH, LR, CLIP = 10, 64, 2e-3, 1.0


def load():
    """(digits to train with, digits that are held out)."""
    digits = load_digits()
    split = train_test_split(digits.data / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    x, x_test = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    y, y_test = (torch.tensor(part) for part in split[2:])
    return TensorDataset(x, y), TensorDataset(x_test, y_test)


def loader(data):
    return DataLoader(data, batch_size=BATCH, shuffle=True)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


@torch.no_grad()
def accuracy(net, data):
    x, y = data.tensors
    device = next(net.parameters()).device
    return (net(x.to(device)).argmax(1).cpu() == y).float().mean().item()


def check(accelerator, amp):
    """Accelerate takes float16 on a CPU for float32, without a word."""
    if amp.dtype != torch.float32 and not accelerator.native_amp:
        raise SystemExit(f"Accelerate has no {amp.precision} on the {accelerator.device.type}; use another precision")
