"""EMA of weights: one more state of a rule, in the same sweep, and the exchange of weights with it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch

from .._binding.layout import PARAM_DTYPES, local_of
from .._binding.matrix_blocks import states_here
from .._core import TYPES
from .._rule import PAGE_END, Rule, joined, signatures_of
from .._storage.line import Storage
from .._storage.word import word_of

STATE, RATE = "ema", "ema_decay"
_YIELD = re.compile(r"^([ \t]*)(?:altgrad\.)?yield\s+param\(\s*(%[\w.$#-]+)\s*\)(?:\s*state\(([^)]*)\))?", re.MULTILINE)


def check_decay(owner, decay):
    """`decay` as a float; raises ValueError unless it is from 0 and below 1."""
    if isinstance(decay, (bool, str)) or not 0.0 <= (number := float(decay)) < 1.0:
        raise ValueError(f"altgrad.optim.{owner}: ema is {decay!r}, not a number from 0 and below 1")
    return number


@lru_cache(1 << 8)
def averaged(rule, rules):
    """A Rule that keeps an EMA of the parameter, too; `rules` are all of the step, whose text is one."""
    texts = {of.text if of.text is not None else of.whole_text(): of.origin for of in rules}
    text = joined([_averaged_text(page) for text in texts for page in text.split(PAGE_END)])
    return Rule(rule.name, text, " and ".join(texts.values()))


def _averaged_text(text):
    """A text whose rules have the state `ema`, behind all others, and average the new parameter in it."""
    text, long, found = signatures_of(text)
    for name, begin, end in reversed(found):
        if re.search(rf"\b{STATE}\b", text[begin:end]):
            raise ValueError(f"the rule {name} has a {STATE!r} already: leave ema= out")
        text = _in_operations(text, end) if long else _in_lines(text, begin, end)
    return text


def _in_lines(text, begin, end):
    """The short form: a line behind the last one."""
    following = re.search(r"^(?=\S)", text[end:].partition("\n")[2], re.MULTILINE)
    stop = len(text) if following is None else len(text) - len(text[end:].partition("\n")[2]) + following.start()
    param = re.search(r"\bparam\s+(\w+)", text[begin:end])[1]
    body = text[end:stop].rstrip()
    return f"{text[:end]}, state {STATE}, {RATE} = 0.999{body}\n  {STATE} = lerp({STATE}, {param}, 1 - {RATE})\n\n{text[stop:]}"


def _in_operations(text, end):
    def average(found):
        space, param, states = found[1], found[2], found[3]
        lines = (f"%{STATE}_one = arith.constant 1.0 : f64", f"%{STATE}_rest = arith.subf %{STATE}_one, %{RATE} : f64",
                 f"%{STATE}_share = arith.truncf %{STATE}_rest : f64 to f32",
                 f"%{STATE}_new = altgrad.lerp %{STATE} to {param} by %{STATE}_share : f32",
                 f"altgrad.yield param({param}) state({states + ', ' if states else ''}%{STATE}_new)")
        return "\n".join([space + line for line in lines])
    return f"{text[:end]}, state %{STATE}: f32, hyper %{RATE}: f64 = 0.999{_YIELD.sub(average, text[end:], count=1)}"


class EmaMixin:
    """What an optimizer with an EMA of weights has."""

    _ema: float | None = None  # the decay that groups have where they say nothing else
    _exchanged = None  # what is to be given back while parameters are their averages

    def _begin_ema(self, decay, storage):
        """Gives this optimizer's rules the average; the storage, which says how it is stored."""
        self._ema = check_decay(type(self).__name__, decay)
        self._keys, self._hypers = {**self._keys, STATE: STATE}, {**self._hypers, RATE: STATE}
        self._older = {**self._older, STATE: self._ema}
        storage = Storage(storage)
        if "rungs" in storage:
            raise ValueError(f"altgrad.optim.{type(self).__name__}: ema averages no parameters on a grid: leave ema= out, and average "
                             "them with torch.optim.swa_utils.AveragedModel")
        storage = storage if STATE in storage else storage | Storage({STATE: "f32"})
        if word_of(storage[STATE]).dtype not in map(TYPES.get, PARAM_DTYPES) or word_of(storage[STATE]).block > 1:
            raise ValueError(f"altgrad.optim.{type(self).__name__}: storage says ema={storage[STATE]}; an average is stored as "
                             "f32, bf16 or f16")
        return storage

    def _ema_entries(self):
        """What a copy has of it."""
        return {key: vars(self)[key] for key in ("_ema", "_keys", "_hypers", "_older") if key in vars(self)}

    @contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Within it parameters are their averages, as for an evaluation; a step is refused there.

        Averages whose dtype is the parameter's change places with it. Of others a copy of the parameter is kept meanwhile.

        Raises:
            RuntimeError: The optimizer was made without `ema`, or is within it already.

        Example:
            >>> optimizer = altgrad.optim.AdamW(model.parameters(), ema=0.999)
            >>> optimizer.step()
            >>> with optimizer.ema_weights():
            ...     loss = model(inputs).sum()
        """
        owner = f"altgrad.optim.{type(self).__name__}"
        if self._ema is None:
            raise RuntimeError(f"{owner} was made without ema=, so there are no averages")
        if self._exchanged is not None:
            raise RuntimeError(f"{owner}: its parameters are their averages already")
        self._exchanged = {}
        try:
            self._exchange(False)
            yield
        finally:
            self._exchange(True)
            self._exchanged = None

    @torch.no_grad()
    def _exchange(self, back):
        for here, there in list(self._averages()):
            if back and id(there) in self._exchanged:
                here.copy_(self._exchanged.pop(id(there)))
                continue
            kept = here.clone()
            here.copy_(there)
            if there.dtype == here.dtype:
                there.copy_(kept)
            else:
                self._exchanged[id(there)] = kept

    def _averages(self):
        """(what lies here of a parameter, its average) of each that has one."""
        for group, param in [(group, param) for group in self.param_groups for param in group["params"]]:
            held = self.state.get(param, {})
            for block in self._blocks_of(group, param, held):
                average = states_here(held, block).get(STATE)
                if average is not None:
                    yield block.local() if block else local_of(param), average
