"""Which tensors kernels can work on, and whether any of them overlap. Other tensors are refused in words."""

import ctypes
import sys
from array import array

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from .._core import core, handle_of
from .._library import Error
from .device_context import is_known

# The dtypes that kernels read and write, and their names in a storage line.
FORMATS = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "ocp.e4m3fn",
    torch.float8_e5m2: "ocp.e5m2",
}
# Where torch has no dtype for a format, its codes lie in integers.
CODES = (torch.uint8, torch.int16, torch.int8)
PARAM_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Types of tensors that run no Python code of their own.
PLAIN = {torch.Tensor, torch.nn.Parameter}
# Dtypes that torch's classes step, and no kernel.
WIDE_DTYPES = (torch.float64, torch.complex64, torch.complex128)


def has_memory(tensor):
    """Whether a tensor that is strided has its numbers in memory: not a FakeTensor, a wrapper or a meta tensor, whose
    address is 0 or none."""
    return (type(tensor).__torch_dispatch__ == torch.Tensor.__torch_dispatch__ and not tensor.is_meta
            and not torch._is_functional_tensor(tensor) and not is_functorch_wrapped_tensor(tensor))


def is_dense(tensor):
    """Whether the elements fill one stretch of memory, each exactly once, in any order."""
    if tensor.is_neg():
        return False
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def same_order(tensor, strides):
    """Whether the elements of `tensor` lie as `strides` says; size-1 dimensions are free."""
    own = tensor.stride()
    return own == strides or all(mine == wanted or size == 1
                                 for mine, wanted, size in zip(own, strides, tensor.shape))


def contiguous_strides(shape):
    """The strides of a contiguous tensor of this shape."""
    strides, count = [], 1
    for size in reversed(shape):
        strides.append(count)
        count *= max(size, 1)
    return tuple(reversed(strides))


def in_order(tensor, strides, dtype=None):
    """`tensor` itself if the dense `strides`, and the dtype, are its own, else a copy that has them."""
    dtype = dtype or tensor.dtype
    if tensor.dtype == dtype and (tensor.numel() == 0 or (same_order(tensor, strides) and not tensor.is_neg())):
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=dtype, device=tensor.device)
    return copy.copy_(tensor)


def check_kind(owner, param, more=()):
    """Raises TypeError, or RuntimeError for complex numbers, where a parameter can never be updated. Checked when a
    group is added.

    `more`: dtypes that torch steps in our place.
    """
    local = local_of(param)
    if not has_memory(local) and not local.is_meta:
        raise TypeError(f"altgrad.optim.{owner} does not support {_name_of_kind(local)} parameters: "
                        "it needs plain tensors with memory of their own")
    if param.dtype in PARAM_DTYPES or param.dtype in more:
        return
    if param.is_complex():  # torch's optimizers that lack them raise this
        raise RuntimeError(f"altgrad.optim.{owner} does not support complex parameters, and one is {param.dtype}: pass "
                           "torch.view_as_real(param)")
    raise TypeError(f"altgrad.optim.{owner} does not support {param.dtype} parameters: the kernels compute in float32 and "
                    "take float32, bfloat16 and float16 parameters")


def _name_of_kind(tensor):
    kind = type(tensor)
    return (kind.__name__ if kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__ else
            "functional" if torch._is_functional_tensor(tensor) else "transformed")


def check_memory(name, tensor):
    """Raises TypeError for what stands in the place of a state and is no plain tensor with memory of its own."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is {type(tensor).__name__}, not a tensor")
    if not has_memory(tensor) and not tensor.is_meta:
        raise TypeError(f"{name} is a {_name_of_kind(tensor)} tensor, and the kernels need plain tensors with memory of "
                        "their own")


def is_dtensor(tensor):
    """Whether it is a torch.distributed.tensor.DTensor, without importing what defines it."""
    defined = sys.modules.get("torch.distributed.tensor")
    return defined is not None and isinstance(tensor, defined.DTensor)


def local_of(tensor):
    """The part of a DTensor that lies here, as a plain tensor; another tensor, or None, as it is."""
    if not is_dtensor(tensor):
        return tensor
    local = tensor._local_tensor
    return local.wait() if type(local) not in PLAIN and hasattr(local, "wait") else local


def check_param(owner, param, fused=False, more=()):
    """Raises unless a kernel can update `param` now, in place or through a dense copy of it."""
    check_kind(owner, param, more)
    if param.device.type == "meta":
        # torch's own words, if the caller chose torch's fused kernels.
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: ['cpu'], but {param.dtype} and meta were given" if fused else
            f"altgrad.optim.{owner}: a parameter is on the meta device and has no memory")
    if not is_known(param.device):
        raise RuntimeError(f"altgrad.optim.{owner} runs on the CPU and on NVIDIA's GPUs; a "
                           f"parameter is on {param.device}")
    if param.layout != torch.strided:
        raise RuntimeError(f"altgrad.optim.{owner} needs strided parameters, not {param.layout}")
    check_mode(param)
    try:
        core().altgrad_core_check_addresses(handle_of(param))
    except Error as error:
        raise RuntimeError(f"altgrad.optim.{owner}: a parameter {error}") from None


def check_mode(tensor):
    """Raises, in torch's words, where torch allows no update in place."""
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not "
                           "allowed. You can make a clone to get a normal tensor before doing "
                           "inplace update.")


def name_of(optimizer, param):
    """The name by which a message calls a parameter."""
    for index, group in enumerate(optimizer.param_groups):
        for place, other in enumerate(group["params"]):
            if other is param or local_of(other) is param:
                names = group.get("param_names") or ()
                return (repr(names[place]) if len(names) == len(group["params"]) else
                        f"parameter {place} of group {index}")


def matrix_of(shape):
    """(rows, columns) of the last two dimensions; (0, 0), one row, where there are less."""
    return tuple(shape[-2:]) if len(shape) > 1 else (0, 0)


def check_grad(owner, param, grad):
    """Raises unless `grad` can be read by a kernel that updates `param`."""
    if grad.is_sparse or grad.layout != torch.strided:
        raise RuntimeError(f"{owner} does not support sparse gradients")
    if not has_memory(grad) and not grad.is_meta:
        raise TypeError(f"altgrad.optim.{owner} does not support {_name_of_kind(grad)} gradients: "
                        "it needs plain tensors with memory of their own")
    if grad.dtype not in PARAM_DTYPES:
        raise TypeError(f"altgrad.optim.{owner} does not support {grad.dtype} gradients: give them in the "
                        "parameter's dtype, float32, bfloat16 or float16")
    if grad.device != param.device or grad.shape != param.shape:
        raise RuntimeError(f"a gradient of shape {tuple(grad.shape)} on {grad.device} does not "
                           f"match its parameter of shape {tuple(param.shape)} on {param.device}")
    check_extent(grad)


def check_no_overlap(optimizer, params):
    """Raises if two parameters share an element: a kernel updates all of them at the same time."""
    _, pair = _overlap(params)
    if pair[0] >= 0:
        names = " and ".join(dict.fromkeys(name_of(optimizer, params[place]) for place in pair))
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: two parameters share memory, among them {names}: "
                           "give one of them to the optimizer, once")


def check_states_no_overlap(optimizer, states):
    """Raises if a state shares an element with another or with a parameter of the optimizer.

    `states` holds (tensor, its key, its parameter) of everything that kernels write beside
    the parameters.
    """
    params = [(local_of(param), None, param) for group in optimizer.param_groups for param in group["params"]
              if is_known(param.device) and param.layout == torch.strided and has_memory(local_of(param))]
    places = [place for place in (*states, *params) if place[0].numel()]
    _, pair = _overlap([tensor for tensor, _, _ in places])
    if pair[0] >= 0 and places[pair[0]][1]:  # else it is among parameters that stay as they are
        (_, key, param), (_, its, owner) = [places[place] for place in pair]
        named = (f"state {its!r} of " if its else "") + name_of(optimizer, owner)
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: state {key!r} of {name_of(optimizer, param)} shares "
                           f"memory with {named}; clone() it")


def find_overlapping(tensors):
    """The indices of the strided tensors that occur twice or share an element with another one."""
    shared, _ = _overlap(tensors)
    return [place for place, shares in enumerate(shared) if shares]


def _overlap(tensors):
    """(a byte for each tensor, 1 where it shares an element with another one; the first two of them, or -1 and -1)."""
    handles, shared, pair = array("Q", map(handle_of, tensors)), bytearray(len(tensors)), array("q", (-1, -1))
    if tensors:
        core().altgrad_core_overlap(handles.buffer_info()[0], len(handles), len(handles),
                                    (ctypes.c_char * len(shared)).from_buffer(shared), pair.buffer_info()[0])
    return shared, pair


def check_extent(tensor):
    """Raises where elements lie beyond the end of the storage, because it was resized."""
    if not tensor._is_zerotensor():
        held = tensor.values() if tensor.is_nested else tensor  # as long as its handle is used
        core().altgrad_core_check_extent(handle_of(held))


def check_extents(tensors):
    """`check_extent` of every tensor that has memory; torch's functions do not check it."""
    for tensor in tensors:
        if tensor.layout == torch.sparse_coo:
            check_extents([tensor._indices(), tensor._values()])
        elif (type(tensor) in PLAIN and tensor.layout == torch.strided
              and not is_functorch_wrapped_tensor(tensor)):
            check_extent(tensor)
