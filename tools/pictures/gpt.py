"""A GPT of PyTorch's encoder layers, small for a CPU or as large as GPT-2 for a GPU, and how it reads a text."""

import statistics
from dataclasses import dataclass

import torch

from .text import LETTERS

HELD_OUT = 20_000  # letters at the text's end


@dataclass(frozen=True)
class Size:
    """`words` is the vocabulary, of which the text has LETTERS."""

    context: int
    batch: int
    width: int
    layers: int
    heads: int
    words: int


SMALL = Size(context=64, batch=16, width=96, layers=3, heads=4, words=LETTERS)
GPT2 = Size(context=1024, batch=8, width=768, layers=12, heads=12, words=50304)


class GPT(torch.nn.Module):
    def __init__(self, size=SMALL):
        super().__init__()
        self.size, width = size, size.width
        self.letters, self.places = torch.nn.Embedding(size.words, width), torch.nn.Embedding(size.context, width)
        layer = torch.nn.TransformerEncoderLayer(width, size.heads, 4 * width, dropout=0.0, activation="gelu",
                                                 batch_first=True, norm_first=True, bias=False)
        self.layers = torch.nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        for weight in self.layers.parameters():  # the encoder's layers are copies of one
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.02)
        self.head = torch.nn.Linear(width, size.words, bias=False)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(size.context), persistent=False)

    def forward(self, x):
        return self.head(self.layers(self.letters(x) + self.places.weight, mask=self.mask, is_causal=True))

    def matrices(self):
        """The weights that Muon is for: those of the layers, and neither embeddings nor head."""
        return [weight for weight in self.layers.parameters() if weight.ndim == 2]


def loss_of(model, codes, starts):
    windows = codes[starts[:, None] + torch.arange(model.size.context + 1, device=codes.device)]
    return torch.nn.functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def held_out(model, codes):
    """The mean loss of the windows that follow each other at the text's end."""
    starts = torch.arange(len(codes) - HELD_OUT, len(codes) - model.size.context, model.size.context, device=codes.device)
    return statistics.mean(loss_of(model, codes, some).item() for some in starts.split(16 * model.size.batch))


def draw_starts(codes, size, generator):
    """Where the windows of a batch begin, before what is held out."""
    starts = torch.randint(len(codes) - HELD_OUT - size.context, (size.batch,), generator=generator)
    return starts.to(codes.device)


def rate_of(step, steps):
    """The factor of a rate: it grows over a twentieth of the steps and then falls to a tenth."""
    return min(1.0, 20 * (step + 1) / steps) * (1.0 - 0.9 * step / steps)
