"""Inference tensors are stepped by several threads, of which one only is in inference mode."""

import torch
import twins

import altgrad


def test_more_than_one_thread_looks_at():
    torch.set_num_threads(2)
    with torch.inference_mode():
        params = twins.make([(3,)] * 600)
        optimizers = [library.optim.AdamW(ps, lr=0.1)
                      for library, ps in zip((altgrad, torch), params)]
        twins.step(optimizers, params, 2)
        for p, q in zip(*params):
            torch.testing.assert_close(p, q)
