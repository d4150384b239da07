"""torch's wrappers around every optimizer's step, entered only where a hook or the profiler needs them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.autograd import profiler
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks


Method = TypeVar("Method", bound=Callable[..., Any])


def watched(step: Method) -> Method:
    """`step` with hooks before and after it, and named to the profiler, as torch wraps it.

    Without hooks and profiler it is called at once: what torch records of every step
    takes as long as looking at a thousand tensors, when caches are cold.
    """
    hooked = torch.optim.Optimizer.profile_hook_step(step)

    @functools.wraps(step)
    def wrapper(self, *positional, **keywords):
        if (profiler._is_profiler_enabled or self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks):
            return hooked(self, *positional, **keywords)
        result = step(self, *positional, **keywords)
        # The step's closure may have added a hook.
        for hooks in (self._optimizer_step_post_hooks, _global_optimizer_post_hooks):
            for hook in hooks.values():
                hook(self, (self, *positional), keywords)
        return result

    # Without these attributes torch wraps the method once more, and each scheduler wraps that of its optimizer in a
    # function that torch.compile does not trace.
    wrapper.hooked = wrapper._wrapped_by_lr_sched = True
    return wrapper


def uncompiled(method: Method) -> Method:
    """A method that torch.compile does not trace. Outside of torch.compile it is called directly."""
    hidden = torch._disable_dynamo(method)

    @functools.wraps(method)
    def wrapper(self, *positional, **keywords):
        if torch.compiler.is_dynamo_compiling():
            return hidden(self, *positional, **keywords)
        return method(self, *positional, **keywords)
    return wrapper
