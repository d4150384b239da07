"""From an optimizer's groups to one table: everything is checked here before anything is changed."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import torch

from .._binding.reproducible_sums import ReproducibleSums
from .._binding.group_rules import OF_PARAMETERS
from .._binding.layout import (CODES, FORMATS, check_no_overlap, check_extent, check_grad, check_memory,
                               check_param, check_states_no_overlap, contiguous_strides, is_dense, is_dtensor,
                               name_of)
from .._binding.matrix_blocks import Block, name_here, shape_here, states_here, tags_of
from .._binding.offload import HostCopy
from .._binding.ranks import Share
from .._binding.shards import (LocalShard, ShardLocation, check_local_shard, check_units, is_elsewhere, location_of)
from .._binding.table import FRESH, TensorTable
from .._binding.tables import Tables
from .._binding.device_context import DeviceContext, in_turn, is_host
from .._core import TYPES, check_fit
from .._bundle import compile_sets
from .._library import Error
from .._plan import Plan
from .._storage.blocks import min_sizes
from .._storage.counts import count_of
from .._storage.limits import warn_of_idle_words, warn_of_limits
from .._storage.master import check_master
from .._storage.grid import code_dtypes
from .._storage.word import line_of_set, word_of
from .._warn import warn
from ._checks import float_of
from ._shapes import Matrices, in_pieces
from ._states import check_held, check_whole, existing_states, make_states


@dataclass(slots=True)
class Row:
    """A parameter with a gradient: `group` counts param_groups, `index` all parameters.

    `owner` is the parameter and `param` what lies of it here: itself, unless `part` says otherwise: of a DTensor, whose
    part is at `at` in the whole, of a parameter that is stepped on the host, or a Block, of which a parameter has several
    rows. `tag` is of this row alone, and of no other in any step. `line` is its set in the words of the
    request, `share` how sums over the step count it, `strides` the order in which the
    kernel visits the elements, `tensors` its states in the order of its set, `count` its step count, `matrices` what
    `_matrices_of` says, `piece` and `more` what `in_pieces` says. A finished row, whose states are there, can be used
    again. `stands_in`: it is no parameter of the optimizer, has no element, and is there for a set without gradients.
    """

    owner: torch.Tensor
    param: torch.Tensor
    part: LocalShard | HostCopy | None
    at: ShardLocation | None
    group: int
    index: int
    tag: int
    strides: tuple
    dense: bool
    grad_dtype: torch.dtype
    line: str
    matrices: Matrices | None
    finished: bool = False
    set: int = 0
    cell: int = 0
    tensors: list = field(default_factory=list)
    count: torch.Tensor | None = None
    share: Share = Share()
    piece: int = -1
    more: int = 0
    stands_in: bool = False


def build(optimizer, groups, group_rules, params, fallback_ids, known, stepped, compile_options, ranks):
    """The Tables for every parameter that has a gradient now, or had one; None if none has.

    `groups` are the Groups, `group_rules` holds (rule, options) of each param_group, `params`
    every parameter but those whose id is in `fallback_ids`, `known` finished rows by their tag
    that may be used again, `stepped` the dtype of the gradient that a parameter had. `compile_options`:
    its `exchange` says whether other `ranks` take part. Raises
    TypeError, ValueError, RuntimeError or altgrad.Error with nothing changed; missing states are made then.
    """
    owner = type(optimizer).__name__
    rows, rules = _rows_of(optimizer, group_rules, fallback_ids, known, stepped, ranks)
    totals = any([rule.totals() for rule in optimizer._every_rule()])
    common = _is_common(compile_options) or totals
    if ranks and (totals or optimizer._agreed):
        rows = _with_idle_sets(optimizer, group_rules, params, known, ranks, rows, rules)
    if not rows:
        return ranks.check(optimizer, rows, totals and []) if common and not optimizer._agreed else None
    check_no_overlap(optimizer, [row.owner if isinstance(row.part, HostCopy | Block) else row.param for row in rows
                                 if not (isinstance(row.part, Block) and row.part.index)])
    if optimizer._reproducible:  # then what all ranks have is put together, replicas once
        for row in rows:
            row.share = Share(set=row.share.set)
    devices = in_turn([row.param.device for row in rows])
    # What sums over the step count on other ranks is a table of its own; on every rank, so that all have the same ones.
    keys = sorted({row.share.key for row in rows}) if common else [None]
    compile_options["exchange"] = common and (compile_options["exchange"] or len(devices) * len(keys) > 1)
    parts = [DevicePlan(device, here, rules, compile_options) for device in devices for key in keys
             if (here := [row for row in rows if row.param.device == device and key in (row.share.key, None)])]
    if totals or any([part.bundle.exchanges or part.bundle.partials for part in parts]):
        ranks.check(optimizer, rows, totals and sorted({(word.sum, word.reduction) for part in parts for of in part.bundle.exchanges
                                                        for word in of.words if word.sum}))
    places = [(group, [optimizer._hyper_place(hyper.key) for hyper in part.bundle.sets[index].hypers])
              for part in parts for group, index in part.cells]
    waits = any([part.context.on_host for part in parts])
    groups.expect(places, partial(float_of, absent=optimizer._absent, waits=waits))
    values = groups.numbers(optimizer.param_groups, every := list(range(len(places))))
    for part in parts:
        part.check(optimizer)
    if not all([row.finished for row in rows]):
        check_states_no_overlap(optimizer, [kept for part in parts
                                            for kept in existing_states(optimizer, part.bundle, part.rows)])
    for part in parts:
        for row in part.rows:
            if not row.finished and not row.stands_in:
                _, options = optimizer._group_rule_with(group_rules[row.group], row.matrices, row.owner)
                check_whole(optimizer, part.bundle.sets[row.set], row, options)
    make_states(optimizer, [(part.bundle, row) for part in parts for row in part.rows])
    for row in rows:
        if row.stands_in:
            optimizer.state.pop(row.owner, None)
    busy = {row.index for row in rows}
    idle = [place for place, param in enumerate(params) if place not in busy and not is_elsewhere(param)]
    tables = [TensorTable(part.bundle, in_pieces(optimizer, part.rows), [index for _, index in part.cells], params,
                          idle if part is parts[0] else [], optimizer.state) for part in parts]
    for table, part in zip(tables, parts):
        table.share, table.fallbacks = part.rows[0].share, optimizer._counters.fallbacks
    if optimizer._reproducible and any([table.bundle.exchanges or table.bundle.partials for table in tables]):
        if len(tables) > 1 or fallback_ids:
            raise RuntimeError(f"altgrad.optim.{owner}: reproducible=True is for parameters of one device that kernels "
                               "update, and not torch's class")
        tables[0].reproducible_sums = ReproducibleSums(tables[0], ranks.everyone)
    uncounted = [(row.owner, optimizer.state[row.owner][optimizer._count_key]) for part in parts
                 for row in part.rows
                 if part.bundle.sets[row.set].step is None and not row.stands_in] if optimizer._always_counts else []
    owners = [(index, cell) for index, part in enumerate(parts) for cell in range(len(part.cells))]
    shared = [[(rules[part.lines[index]].name, hyper.key) if hyper.set < 0 else None for hyper in part.bundle.sets[index].hypers]
              for part in parts for _, index in part.cells]
    built = Tables(tables, owners, places, shared, uncounted, len(group_rules))
    built.set_hypers(optimizer.param_groups, values, every)
    storages = optimizer._storages()
    if any(storages):
        warn_of_idle_words(owner, optimizer._words, {param.dtype for param in params})
        of_part = iter(values)
        for part in parts:
            warn_of_limits(owner, part.bundle, part.cells, storages, of_part)
    if any([table.validate(params, optimizer.state) != FRESH for table in tables]):
        raise RuntimeError("a gradient changed while its step was prepared")
    return built


def _is_common(compile_options):
    """Whether the step finds out something that all devices and ranks have to share."""
    return (compile_options["clip"] not in (None, *OF_PARAMETERS) or isinstance(compile_options["scaler"], str)
            or compile_options["multiplied"])


def multiplies(rules, params):
    """Whether products of matrices are wrong without a word, as a GPU's are: the CPU's are looked at as they are made."""
    return (any([rule.multiplies() for rule, _ in rules])
            and not all([is_host(device) for device in {param.device for param in params}]))


def _rows_of(optimizer, group_rules, fallback_ids, known, stepped, ranks):
    """(a row for each parameter that has a gradient, the rule of each line); a known row stays in the table while its
    gradient is None and others of its program and set have one, so the gradient's return does not rebuild the table. With
    ranks a row is known that was there in other settings, for other ranks may have its gradient now."""
    owner, namer, rows, rules, place, more = type(optimizer).__name__, _Namer(optimizer, stepped), [], {}, 0, 0
    for index, (group, group_rule) in enumerate(zip(optimizer.param_groups, group_rules)):
        for param in group["params"]:
            if id(param) in fallback_ids:
                continue
            try:
                blocks = optimizer._blocks_of(group, param, optimizer.state.get(param, {}))
            except ValueError as error:
                raise ValueError(f"altgrad.optim.{owner}: {name_of(optimizer, param)}: {error}") from None
            tags = tags_of(blocks, place, more)
            if param.grad is None and tags[0] not in known and param in stepped and ranks and not is_elsewhere(param):
                known.update(zip(tags, _rows_for(namer, param, index, place, group_rule, tags, blocks)))
            elif param.grad is not None and not is_elsewhere(param):
                known_well = all([tag in known and known[tag].grad_dtype is param.grad.dtype for tag in tags])
                _check_pair(optimizer, param, group, known_well)
                found = [known[tag] for tag in tags] if known_well else (
                    _rows_for(namer, param, index, place, group_rule, tags, blocks))
                rows += found
                rules.update({row.line: group_rule[0] for row in found})
            place, more = place + 1, more + len(blocks) - 1
    namer.warn()
    for row in [*rows, *known.values()]:
        row.share = ranks.share(row.owner, row.at)
    busy = {_set_of(row) for row in rows}
    rows += [row for row in known.values() if row.owner.grad is None and _set_of(row) in busy]
    return sorted(rows, key=lambda row: row.index), rules


def _rows_for(namer, param, group, place, group_rule, tags, blocks):
    """The rows of a parameter, or of its blocks; an error names it."""
    try:
        return [_row(namer, param, group, place, group_rule, tag, block) for tag, block in zip(tags, blocks)]
    except (TypeError, ValueError) as error:
        optimizer = namer.optimizer
        raise type(error)(f"altgrad.optim.{type(optimizer).__name__}: {name_of(optimizer, param)}: {error}") from None


def _set_of(row):
    return row.param.device, row.share.key, row.line


def _with_idle_sets(optimizer, group_rules, params, known, ranks, rows, rules):
    """`rows`, and those of sets without gradients on this rank, whose sums are zeros that other ranks wait for: the rows of
    earlier steps, of which none takes part, and for each set one that stands in, which goes into `params`. Adds to `rules`."""
    busy = {_set_of(row) for row in rows}
    like = [row for row in known.values() if not row.stands_in and _set_of(row) not in busy]
    rules.update({row.line: group_rules[row.group][0] for row in like})
    rows, namer = [*rows, *like], _Namer(optimizer)
    for index, (group, group_rule) in enumerate(zip(optimizer.param_groups, group_rules)):
        if group_rule[0].totals() and group_rule[0] not in rules.values():
            own = {*map(id, group["params"])}.intersection(map(id, params))
            first = next((param for param in params if id(param) in own and not is_elsewhere(param)), None)
            first = torch.nn.Parameter(torch.empty(0)) if first is None else first
            row = _row(namer, first, index, len(params), group_rule, len(params), None)
            row.share = ranks.share(row.owner, row.at)
            like.append(row)
            rules[row.line] = group_rule[0]
    for row in {_set_of(row): row for row in like}.values():
        made = torch.nn.Parameter(row.param.new_empty((0, *row.param.shape[1:])))
        made.grad = made.detach().to(row.grad_dtype)
        rows.append(replace(row, owner=made, param=made, part=None, at=None, index=len(params), tag=len(params), strides=made.stride(),
                            dense=True, matrices=None, finished=False, tensors=[], count=None, stands_in=True))
        params.append(made)
    return sorted(rows, key=lambda row: row.index)


def _check_pair(optimizer, param, group, known_well):
    """Raises, with the parameter's name, where it or its gradient is none for a kernel."""
    owner, part = type(optimizer).__name__, _part_of(optimizer, param)
    local = part.local() if part else param
    try:
        if not known_well:
            check_param(owner, local, group.get("fused"), code_dtypes(optimizer._storage_of(group)))
            # Before anybody asks what overlaps: a shrunken storage has neighbours.
            check_extent(local)
        check_grad(owner, local, part.grad(optimizer._counters.fallbacks) if part else param.grad)
    except (TypeError, RuntimeError) as error:
        raise type(error)(f"{error}: {name_of(optimizer, param)}") from None


def _part_of(optimizer, param):
    """What of a parameter is stepped in its place; None: itself."""
    if is_dtensor(param):
        return LocalShard(param)
    return optimizer._offload.host_copy(param) if optimizer.offload else None


class DevicePlan:
    """The rows of one device, in the order of their sets, and the program that steps them."""

    def __init__(self, device, rows, rules, compile_options):
        self.context, self.rows = DeviceContext(device), rows
        self.lines = lines = sorted({row.line for row in self.rows})
        self.bundle = compile_sets(lines, [rules[line] for line in lines],
                                   on_host=self.context.on_host, **compile_options)
        if self.bundle.folds and not compile_options["exchange"] and any([row.at and row.at.parted for row in rows]):
            compile_options["exchange"] = True  # for sums over tensors of which other ranks have parts
            self.__init__(device, rows, rules, compile_options)
            return
        _number(self.rows, lines)
        for row in self.rows:
            if self.bundle.sets[row.set].places and not row.param.is_contiguous() and not row.matrices:
                row.strides, row.dense = contiguous_strides(row.param.shape), False
        self.cells = _cells(self.rows)

    def check(self, optimizer):
        """Raises where the device cannot do it, or not now."""
        owner = type(optimizer).__name__
        asks = [part.unit_multiple or any([of.block != 1 or of.packed for of in part.states]) for part in self.bundle.sets]
        for row in self.rows:
            part = self.bundle.sets[row.set]
            try:
                if row.at and row.at.parted:
                    check_local_shard(row.at, self.bundle, row.set)
                    if part.multiplies:
                        raise ValueError("its rule multiplies whole matrices, and other ranks have parts of it: train under "
                                         "torch.nn.parallel.DistributedDataParallel, where each rank has all of them")
                    if part.columns:
                        raise ValueError("its rule has values per row and per column of whole matrices, and other "
                                         "ranks have parts of it")
                    for stream in part.states:
                        if stream.of_units:
                            raise ValueError(f"its state {stream.key!r} has a value for each row, and other ranks have "
                                             "parts of it")
                    if part.unit_multiple:
                        check_units(row.at)
                    if row.at.offset is None and part.places:
                        raise ValueError("it is not sharded along dimension 0, and its rule asks where in the whole its elements "
                                         "are: shard dimension 0")
                if asks[row.set]:
                    check_fit(self.bundle, row.set, row.param.shape, row.strides, row.matrices)
                if not row.finished:
                    check_held(optimizer, self.bundle, row)
            except (TypeError, ValueError) as error:
                raise type(error)(f"altgrad.optim.{owner}: {name_here(name_of(optimizer, row.owner), row.part)}: {error}") from None
        self._check_device(owner)

    def _check_device(self, owner):
        with self.context.guard():
            if self.context.is_capturing():
                raise RuntimeError(
                    f"altgrad.optim.{owner}: the tensors of this step are not those of the last "
                    "one; a graph can be captured after a step with the same parameters, "
                    "gradients and options")
            if not self.context.on_host:
                Plan(self.bundle, self.context.name)


def _number(rows, lines):
    """Gives every row its set, and brings the rows in the order of the sets."""
    index = {line: place for place, line in enumerate(lines)}
    for row in rows:
        row.set = index[row.line]
    rows.sort(key=lambda row: (row.set, row.index))


def _cells(rows):
    """(param_group, set) of each group of the plan; gives every row its own."""
    cells = {}
    for row in rows:
        row.cell = cells.setdefault((row.group, row.set), len(cells))
    return list(cells)


def _row(namer, owner, group, place, group_rule, tag, block):
    part, at = block or _part_of(namer.optimizer, owner), location_of(owner)
    param = part.local() if part else owner
    matrices = block.matrices if block else namer.optimizer._matrices_of(namer.optimizer.param_groups[group], owner)
    other = matrices is not None and not matrices.lies_in(param)
    # A part of a whole is visited in the order of the whole.
    dense = param.is_contiguous() if at and at.parted else is_dense(param) and not other
    strides = matrices.strides if other else (param if dense else torch.empty_like(
        param, memory_format=torch.contiguous_format if at else torch.preserve_format)).stride()
    line = namer.line(namer.optimizer._group_rule_with(group_rule, matrices, owner), owner, param, at, group, matrices, part)
    return Row(owner, param, part, at, group, place, tag, strides, dense, namer.grad_dtype(owner), line, matrices)


class _Namer:
    """Puts a parameter's set into words by its rule, options and dtypes."""

    def __init__(self, optimizer, stepped=()):
        self.optimizer, self.stepped, self.lines, self.wide = optimizer, dict(stepped), {}, {}
        self.storages = optimizer._storages()
        self.min_sizes = list(map(min_sizes, self.storages))

    def grad_dtype(self, owner):
        return self.stepped.get(owner, owner.dtype) if owner.grad is None else owner.grad.dtype

    def line(self, group_rule, owner, param, at, group, matrices, part):
        """The line of one parameter of the param_group with this index; checks the states that are there already."""
        held = self.optimizer.state.get(owner, {})
        if not isinstance(held, MutableMapping):
            raise TypeError(f"its state is {held!r}, not a dict")
        held = states_here(held, part)
        if self.optimizer._count_key in held:
            count_of(held[self.optimizer._count_key], param.device)
        words, bounds = self.storages[group], self.min_sizes[group]
        names = self.optimizer._stored(group_rule[1], words)
        numel = bounds and max([0, *[bound for bound in bounds if bound <= prod(shape_here(owner, part))]])
        if numel and self._cuts_blocks(group_rule[1], matrices, names, owner, at, words):
            numel = 0
        states = tuple([_state_dtype(key, held.get(key)) for _, key in names])
        if held:
            check_master(words, held, names, param.dtype)
        choice = group_rule, words, param.dtype, self.grad_dtype(owner), states, numel or 0
        if choice not in self.lines:
            self.lines[choice] = self._words(*choice)
        return self.lines[choice]

    def _cuts_blocks(self, options, matrices, names, owner, at, words):
        """Whether a unit of the rule, or the part of a rank, ends within a block of a state."""
        units = [self.optimizer._unit_of(options, matrices)] if matrices else []
        units += [at.cut] if at is not None and at.parted else []
        cut = [(unit, block) for name, _ in names if name != "copy" for unit in units if unit
               and unit % (block := max(1, word_of(words.get(name, words.get("states", ""))).block))]
        if cut and owner.dim() > 1:
            self.wide.setdefault((cut[0][1], None if at is not None and at.parted else cut[0][0]), []).append(owner)
        return bool(cut)

    def warn(self):
        """Says once which parameters keep float32 states where the storage says blocks; not of vectors, which are small."""
        for (block, unit), params in self.wide.items():
            names = [f"{name_of(self.optimizer, param)} of shape {tuple(param.shape)}" for param in params]
            why = f"the parts of ranks end within blocks of {block} elements" if unit is None else (
                f"their rows of {unit} elements end within blocks of {block}")
            if not self.optimizer._wide.issuperset(names):
                self.optimizer._wide = self.optimizer._wide.union(names)
                warn(f"altgrad.optim.{type(self.optimizer).__name__}: the states of {', '.join(names)} stay float32, because "
                     f"{why}: choose blocks that divide their rows in storage=")

    def _words(self, group_rule, words, param, grad, states, numel):
        # Of classes with several rules, what is another one's.
        declared, keys = group_rule[0].declared("state"), self.optimizer._keys
        stored = self.optimizer._stored(group_rule[1], words)
        own = {*dict(stored), *self.optimizer._of_units} & {*declared}
        others = [name for name in words if name in keys and name not in own]
        held = [(name, key, TYPES[dtype]) for (name, key), dtype in zip(stored, states)
                if dtype is not None and (name in declared or name not in keys)]
        try:
            return line_of_set(*group_rule, words, TYPES[param], TYPES[grad], numel, others, held)
        except Error as error:
            raise TypeError(str(error)) from None


def _state_dtype(key, state):
    """The dtype of a state, None for one that is still to be made."""
    if state is None:
        return None
    if not isinstance(state, torch.Tensor) or state.dtype not in (*FORMATS, *CODES):
        group_rule = state.dtype if isinstance(state, torch.Tensor) else type(state).__name__
        known = ", ".join(FORMATS.values())
        raise TypeError(f"state {key!r} is {group_rule}; the kernels store {known}")
    if state.layout != torch.strided:
        raise TypeError(f"state {key!r} is {state.layout}, because its gradients were: the "
                        "kernels and torch need a dense state")
    check_memory(f"state {key!r}", state)
    return state.dtype
