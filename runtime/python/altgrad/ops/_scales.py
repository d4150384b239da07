"""Scales that bring tensors into a format's range, and the magnitudes they follow from."""

import torch

from ._quantize import _check_format, check_block, largest

_LEAST, _MARGIN = 1e-10, 1.01


def compute_scale(x, fmt, *, dim=None, block=None):
    """The scale by which `quantize` brings `x` into the range of `fmt`, a float32 tensor.

    amax * 1.01 / (the largest number of `fmt`), at least 1e-10, and that where amax is below
    it (altgrad's quantization engine). amax is the largest finite magnitude of `x`, a tensor
    or a number, such as an amax that is already known: the whole tensor's, with `dim` (an int
    or several) those over these dimensions, which keep the extent 1, or with `block` one for
    each `block` neighbours in the last dimension, as `quantize` takes them. Raises ValueError
    for an unknown format or a `block` that is no number of elements.
    """
    _check_format(fmt)
    amax = _amax(torch.as_tensor(x), dim, block).double()
    scale = (amax * _MARGIN / _largest(fmt)).clamp(_LEAST, torch.finfo(torch.float32).max)
    return torch.where(amax < _LEAST, _LEAST, scale).float()


@torch.compiler.assume_constant_result
def _largest(fmt):
    return largest(fmt)


@torch.no_grad()
def _amax(x, dim=None, block=None):
    """The largest finite magnitude; 0 of nothing."""
    if x.is_complex():
        raise TypeError(f"a tensor of {x.dtype} was given; magnitudes are of real numbers")
    if x.layout != torch.strided:
        raise TypeError(f"a tensor of {x.layout} was given; magnitudes are of dense ones: to_dense() it")
    size = x.detach().float().abs()
    size = torch.where(size.isfinite(), size, 0.0)
    if block is not None:
        check_block(block)
        if dim is not None or x.dim() == 0:
            raise ValueError("blocks want a tensor with a last dimension, and no dim beside them")
        blocks = -(-size.shape[-1] // block)
        padded = torch.nn.functional.pad(size, (0, blocks * block - size.shape[-1]))
        return padded.unflatten(-1, (blocks, block)).amax(-1)
    if dim is None:
        return size.amax() if size.numel() else size.new_zeros(())
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if 0 in (size.shape[i] for i in dims):
        return size.sum(dims, keepdim=True)
    return size.amax(dims, keepdim=True)


class AmaxHistory(torch.nn.Module):
    """The largest magnitudes of the last `length` tensors: delayed scaling.

        history = altgrad.AmaxHistory()
        history.update(x)
        y = altgrad.quantize(x, "ocp.e4m3fn", history.scale("ocp.e4m3fn"))

    A module with two buffers, so it moves and is saved with its model; on a device nobody
    waits for it. Numbers that are not finite do not count. Raises ValueError for a `length`
    below 1.
    """

    def __init__(self, length=16, device=None):
        super().__init__()
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise ValueError(f"length is {length!r}; it is a number of tensors from 1 on")
        self.register_buffer("history", torch.zeros(length, device=device))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64, device=device))

    @torch.no_grad()
    def update(self, x):
        """Adds the largest finite magnitude of `x`, in place of the oldest one."""
        place = (self.count % len(self.history)).reshape(1)
        self.history.index_copy_(0, place, _amax(x).to(self.history).reshape(1))
        self.count += 1

    @property
    def amax(self):
        """The largest of what it holds, a 0-dim float32 tensor; 1 before the first."""
        return torch.where(self.count == 0, 1.0, self.history.max())

    def scale(self, fmt):
        """`compute_scale` of `amax`."""
        return compute_scale(self.amax, fmt)
