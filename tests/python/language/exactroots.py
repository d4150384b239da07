"""torch with roots that are rounded to the nearest number: on some CPUs torch's root is MKL's, which is not."""

from torch.overrides import TorchFunctionMode


class ExactRoots(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name not in ("sqrt", "sqrt_") or kwargs:
            return function(*args, **kwargs or {})
        root = args[0].double().sqrt().to(args[0].dtype)
        return args[0].copy_(root) if name == "sqrt_" else root
