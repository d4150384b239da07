"""Narrow states of parameters whose parts end within blocks: float32, said once by name."""

import warnings

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import altgrad

SHAPES = {"odd": (64, 101), "even": (32, 512), "conv": (40, 3, 7, 7), "small": (3, 7), "vector": (5000,), "columns": (64, 512)}
CLASSES = "AdamW8bit", "Adam8bit", "Lion8bit", "AdamWFp8", "LionFp8", "AdamW4bit"


def train(name, place):
    """(parameters, dtypes of their first states, what was warned of) after three steps."""
    torch.manual_seed(0)
    params = {key: torch.nn.Parameter(place(torch.randn(shape), key)) for key, shape in SHAPES.items()}
    optimizer = getattr(altgrad.optim, name)(params.items(), lr=0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            for key, param in params.items():
                param.grad = place(torch.randn(param.shape), key)
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
    whole = [(param.full_tensor() if hasattr(param, "full_tensor") else param).detach() for param in params.values()]
    return whole, [str(optimizer.state[param]["exp_avg"].dtype) for param in params.values()], [
        str(of.message) for of in said if "float32" in str(of.message)]


def parts(rank, group):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    place = lambda tensor, key: distribute_tensor(
        tensor, mesh, [Replicate(), Shard(1 if key == "columns" else 0)], src_data_rank=None)
    return [[[of.tolist() for of in whole], dtypes, said] for whole, dtypes, said in (train(name, place) for name in CLASSES)]


def test_states_are_float32_where_parts_end_within_blocks(tmp_path):
    answers, = ranks.run([parts], tmp_path, 4)
    expected = [(train(name, lambda tensor, key: tensor), train(name.replace("8bit", "").replace("4bit", "").replace("Fp8", ""),
                 lambda tensor, key: tensor)) for name in CLASSES]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for name, (params, dtypes, said), ((narrow, narrow_dtypes, _), (wide, *_)) in zip(CLASSES, answer, expected):
            whole = [dtype != "torch.float32" for dtype in dtypes]
            assert whole == [key == "even" for key in SHAPES], (name, dtypes)
            assert len(said) == 1 and "'odd' of shape (64, 101), 'conv' of shape (40, 3, 7, 7), 'columns' of shape (64, 512)" in said[0]
            for param, is_narrow, as_narrow, as_wide in zip(params, whole, narrow, wide):
                assert torch.equal(torch.tensor(param), as_narrow if is_narrow else as_wide), name


@pytest.mark.parametrize("word", ["bnb8:256", "bnb8u:256,keep_positive", "torchao4:128", "ocp.e4m3fn:256", "ocp.e5m2:256,keep_positive",
                                  "int8:256:f16,softsign", "uint8:256:f16,sqrt", "ocp.e4m3fn:32:ocp.e8m0", "ocp.e5m2:64:f16"])
@pytest.mark.parametrize("size", [1e-12, 1e-5, 1.0, 300.0])
def test_numbers_of_blocks_become_blocks_that_stand_for_them(word, size):
    from altgrad._storage.codes import decode_blocks, encode_blocks
    from altgrad._storage.portable import again
    from altgrad._storage.word import word_of
    from altgrad.quant._blocks import quantize_into
    torch.manual_seed(1)
    numbers, block = torch.randn(64 * 101) * size, word_of(word).block
    numbers[:700], numbers[1000:1100] = 0, numbers[1000:1100] * 1e-5
    numbers = numbers.square() if "u" in word.partition(":")[0] or "positive" in word else numbers
    stored = decode_blocks(word, *encode_blocks(word, numbers, block, quantize_into), block)
    assert torch.equal(decode_blocks(word, *again(word, stored, block), block), stored)
