"""Which tensors kernels can work on. Other tensors are refused in words."""

import sys

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from .where import is_known

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
    return own == strides or all(mine == theirs or size == 1
                                 for mine, theirs, size in zip(own, strides, tensor.shape))


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
    if not is_dense(param) and _repeats(param):
        raise RuntimeError(f"altgrad.optim.{owner}: a parameter of shape {tuple(param.shape)} and "
                           f"strides {param.stride()} has several elements at one address; clone() it")


def check_mode(tensor):
    """Raises, in torch's words, where torch allows no update in place."""
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not "
                           "allowed. You can make a clone to get a normal tensor before doing "
                           "inplace update.")


def _repeats(tensor):
    """Whether two elements may share memory: conservative, exact for slices of dense tensors."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size <= 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def name_of(optimizer, param):
    """The name by which a message calls a parameter."""
    for index, group in enumerate(optimizer.param_groups):
        for place, other in enumerate(group["params"]):
            if other is param or local_of(other) is param:
                names = group.get("param_names") or ()
                return (repr(names[place]) if len(names) == len(group["params"]) else
                        f"parameter {place} of group {index}")


def units_of(param):
    """The size of dimension 0: the number of outputs of a layer, each of which has its own part of the tensor.

    A tensor of less than two dimensions is one as a whole.
    """
    return param.shape[0] if param.dim() > 1 and param.numel() else 1


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


def check_apart(optimizer, params):
    """Raises if two parameters share an element: a kernel updates all of them at the same time."""
    if met := find_met(params):
        names = " and ".join(dict.fromkeys(name_of(optimizer, params[place]) for place in met[:2]))
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: two parameters share memory, among them {names}: "
                           "give one of them to the optimizer, once")


def check_states_apart(optimizer, states):
    """Raises if a state shares an element with another or with a parameter of the optimizer.

    `states` holds (tensor, its key, its parameter) of everything that kernels write beside
    the parameters.
    """
    params = [(local_of(param), None, param) for group in optimizer.param_groups for param in group["params"]
              if is_known(param.device) and param.layout == torch.strided and has_memory(local_of(param))]
    places = [place for place in (*states, *params) if place[0].numel()]
    met = [places[place] for place in find_met([tensor for tensor, _, _ in places])]
    for index, (tensor, key, param) in enumerate(met):
        for other, its, owner in met[index + 1:] if key else ():
            if find_met([tensor, other]):
                beside = f"state {its!r} of {name_of(optimizer, owner)}" if its else (
                    name_of(optimizer, owner))
                raise RuntimeError(
                    f"altgrad.optim.{type(optimizer).__name__}: state {key!r} of "
                    f"{name_of(optimizer, param)} shares memory with {beside}; clone() it")


def find_met(tensors):
    """The indices of the strided tensors that occur twice or share an element with another one."""
    spans = sorted([(t.data_ptr(), t.data_ptr() + _reach(t), place)
                    for place, t in enumerate(tensors) if t.numel()])
    end, near, met = 0, [], _twice(tensors)
    for start, stop, place in spans:
        if start >= end:
            met |= _meeting(tensors, near)
            near = []
        near.append(place)
        end = max(end, stop)
    return sorted(met | _meeting(tensors, near))


def _twice(tensors):
    """The indices of the objects that occur more than once."""
    places = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(id(tensor), []).append(place)
    if len(places) == len(tensors):
        return set()
    return {place for several in places.values() if len(several) > 1 for place in several}


def _reach(tensor):
    """Bytes from the first to behind the last element."""
    if tensor.is_contiguous():
        return tensor.nbytes
    last = sum([stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape)])
    return (last + 1) * tensor.itemsize


def check_extent(tensor):
    """Raises where elements lie beyond the end of the storage, because it was resized."""
    if tensor.numel() == 0 or tensor._is_zerotensor():
        return
    end = tensor.storage_offset() * tensor.itemsize + _reach(tensor)
    held = tensor.untyped_storage().nbytes()
    if end > held:
        raise RuntimeError(f"altgrad: a tensor of sizes {list(tensor.shape)} ends at byte {end} of "
                           f"a storage of {held} bytes: resize the storage before the step")


def check_extents(tensors):
    """`check_extent` of every tensor that has memory; torch's functions do not check it."""
    for tensor in tensors:
        if tensor.layout == torch.sparse_coo:
            check_extents([tensor._indices(), tensor._values()])
        elif (type(tensor) in PLAIN and tensor.layout == torch.strided
              and not is_functorch_wrapped_tensor(tensor)):
            check_extent(tensor)


def _meeting(tensors, places):
    """Those of `places` that share a byte; their spans overlap, but columns of a matrix are apart."""
    if len(places) < 2:
        return set()
    if all(is_dense(tensors[place]) for place in places):
        return set(places)
    addresses = [_addresses(tensors[place]) for place in places]
    every, counts = torch.unique(torch.cat(addresses), return_counts=True)
    shared = every[counts > 1]
    return {place for place, own in zip(places, addresses) if torch.isin(own, shared).any()}


def _addresses(tensor):
    spread = torch.arange(tensor.itemsize, device="cpu")
    for stride, size in zip(tensor.stride(), tensor.shape):
        along = torch.arange(size, device="cpu") * (stride * tensor.itemsize)
        spread = (spread[:, None] + along).view(-1)
    return spread + tensor.data_ptr()
