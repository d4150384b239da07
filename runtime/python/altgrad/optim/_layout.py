"""Which tensors a kernel may walk as one run of elements, and what is refused."""

import torch

# What the kernels read and write, and how altgrad-opt's --storage spells it.
FORMATS = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "ocp.e4m3fn",
    torch.float8_e5m2: "ocp.e5m2",
}
DTYPES = {word: dtype for dtype, word in FORMATS.items()}
PARAM_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


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


def in_order(tensor, strides):
    """`tensor` itself if the dense `strides` are its own, else a copy that has them."""
    if tensor.numel() == 0 or (same_order(tensor, strides) and not tensor.is_neg()):
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def check_dtype(owner, param):
    """Raises TypeError unless the kernels know the parameter's dtype."""
    if param.dtype in PARAM_DTYPES:
        return
    if param.is_complex():
        advice = "pass torch.view_as_real(param)"
    else:
        advice = "the kernels compute in float32 and take float32, bfloat16 and float16 parameters"
    raise TypeError(f"altgrad.optim.{owner} does not support {param.dtype} parameters: {advice}")


def check_param(owner, param):
    """Raises unless a kernel can update `param` in place or through a dense copy of it."""
    kind = type(param)
    if kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__:
        raise TypeError(f"altgrad.optim.{owner} does not support {kind.__name__} parameters: "
                        "it needs plain tensors with memory of their own")
    if param.device.type == "meta":
        # torch's words, which its own suite matches.
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of "
                           f"supported devices: ['cpu'], but {param.dtype} and meta were given")
    if param.device.type != "cpu":
        raise RuntimeError(f"altgrad.optim.{owner} runs on CPU tensors; a parameter is on "
                           f"{param.device}")
    if param.layout != torch.strided:
        raise RuntimeError(f"altgrad.optim.{owner} needs strided parameters, not {param.layout}")
    check_dtype(owner, param)
    if not is_dense(param) and _repeats(param):
        raise RuntimeError(f"altgrad.optim.{owner}: a parameter of shape {tuple(param.shape)} and "
                           f"strides {param.stride()} names some memory more than once; clone() it")


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


def check_grad(owner, param, grad):
    """Raises unless `grad` can be read by a kernel that updates `param`."""
    if grad.is_sparse or grad.layout != torch.strided:
        raise RuntimeError(f"{owner} does not support sparse gradients")
    if grad.dtype not in PARAM_DTYPES:
        raise TypeError(f"altgrad.optim.{owner} does not support {grad.dtype} gradients")
    if grad.device != param.device or grad.shape != param.shape:
        raise RuntimeError(f"a gradient of shape {tuple(grad.shape)} on {grad.device} does not "
                           f"match its parameter of shape {tuple(param.shape)} on {param.device}")


def check_apart(owner, spans):
    """Raises if two of the (pointer, bytes) overlap: rows of one kernel run at the same time."""
    spans = sorted([span for span in spans if span[1]])
    for (start, size), (following, _) in zip(spans, spans[1:]):
        if following < start + size:
            raise RuntimeError(f"altgrad.optim.{owner}: two parameters share memory")
