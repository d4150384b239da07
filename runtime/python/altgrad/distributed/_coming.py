"""Updated parameters that come from other ranks while the next forward goes on."""

import weakref

from .._binding.rank_sets import exchange


class Coming:
    """What is on its way after a step, in buckets; all of it is waited for at once, unless there is a model.

    Each module of the model then waits, before its forward, for the buckets of its own parameters.
    """

    def __init__(self, model):
        self._works, self._buckets, self._model = {}, {}, model
        here = weakref.WeakMethod(self._forward)
        for module in model.modules() if model is not None else ():
            module.register_forward_pre_hook(lambda module, given: (method := here()) and method(module))
        if model is not None:
            model.register_state_dict_pre_hook(lambda *_: (method := here()) and method(None))

    def send(self, buckets):
        """Begins to give every rank what the others have of these, in this order."""
        self._works = {id(bucket): bucket.gather() for bucket in buckets}
        self._buckets = {id(param): id(bucket) for bucket in buckets for param in bucket.params} if self._model is not None else {}
        if self._model is None:
            self.wait()

    def wait(self):
        for key in list(self._works):
            self._wait_for(key)

    def _wait_for(self, key):
        work = self._works.pop(key, None)
        if work is not None:
            with exchange("the exchange of parameters"):
                work.wait()

    def _forward(self, module):
        if module is None:
            self.wait()
        elif self._works:
            for param in module.parameters(recurse=False):
                self._wait_for(self._buckets.get(id(param)))
