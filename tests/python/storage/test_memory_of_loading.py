"""load_state_dict takes the tensors of its file: it does not make other ones of them meanwhile."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import altgrad


class Made(TorchDispatchMode):
    """The bytes of all memory that torch's operators make, whether or not they let go of it again."""

    bytes = 0

    def __torch_dispatch__(self, operator, types, given=(), words=None):
        result = operator(*given, **(words or {}))
        lying = [{of.untyped_storage().data_ptr(): of.untyped_storage().nbytes() for of in tree_leaves(values)
                  if isinstance(of, torch.Tensor)} for values in ((given, words), result)]
        self.bytes += sum([size for place, size in lying[1].items() if place not in lying[0]])
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit", "AdamW4bit", "AdamWFp8"])
def test_loading_makes_a_fifth_of_the_states_at_most(name, dtype):
    params = [torch.nn.Parameter(torch.ones(256, 1024, dtype=dtype)), torch.nn.Parameter(torch.ones(7, dtype=dtype))]
    one, other = (getattr(altgrad.optim, name)(params) for _ in range(2))
    for param in params:
        param.grad = torch.ones_like(param)
    one.step()
    states = sum([value.nbytes for held in one.state.values() for value in held.values()])
    saved = copy.deepcopy(one.state_dict())
    with Made() as made:
        other.load_state_dict(saved)
    assert made.bytes <= 0.2 * states, f"{made.bytes} bytes beside states of {states}"
    for param in params:
        for key, value in one.state[param].items():
            assert other.state[param][key].dtype == value.dtype and torch.equal(other.state[param][key], value)
