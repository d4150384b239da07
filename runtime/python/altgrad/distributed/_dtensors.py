"""Parameters of FSDP2 and of tensor parallel layers in DistMuon: matrices go to their owners and back, others stay."""

from collections import Counter
from math import prod

import torch
import torch.distributed as dist

from .._binding.layout import is_dtensor, local_of
from .._binding.rank_sets import RankSet, check_reach, exchange
from .._binding.ranks import Share
from .._binding.shards import absent, box_of, check_placements, local_grad, location_of
from .._core import chunk
from ._buckets import layout_of
from ._owned import cost_of, owners_of, remote_parameter


class DTensorBucket:
    """DTensors of one dtype on one device, and plain tensors beside them, which every rank has, in the interface of a Bucket.
    Their gradients are averages already."""

    def __init__(self, params, group, reduce_dtype):
        self.params, self.fallbacks = params, Counter()
        self._laid = [self._layout_of(param) for param in params]
        self._group, self._reduce_dtype = group, reduce_dtype
        self.sum, self._pending, self._grads = None, None, {}

    def share(self):
        """Every rank has its part already."""

    moves = False
    edited = True  # whether parameters travel to their owners, too

    def is_edited(self):
        return False

    def is_here(self, place):
        return True

    def _layout_of(self, param):
        of = (param.device_mesh, param.placements) if is_dtensor(param) else ()
        return *of, param.shape, layout_of(local_of(param), self.moves)

    def is_still(self, place):
        return self._layout_of(self.params[place]) == self._laid[place]

    def take(self, place):
        param = self.params[place]
        self._grads[place], param.grad = local_grad(param, self.fallbacks).to(self._reduce_dtype), None

    def clear(self):
        self.sum, self._pending, self._grads = None, None, {}

    def grad_of(self, place):
        return self.sum.get(place)

    def _take_all(self):
        """The gradients as they lie here; 0 where only other ranks have one."""
        grads, self._grads = self._grads, {}
        return [grads[place] if place in grads else torch.zeros_like(local_of(param), dtype=self._reduce_dtype)
                for place, param in enumerate(self.params)]


class ShardedParameters(DTensorBucket):
    """DTensors that a rule updates element by element: each rank steps what it has of them."""

    def __init__(self, params, boxes, group, reduce_dtype):
        super().__init__(params, group, reduce_dtype)
        self._parts = [torch.nn.Parameter(local_of(param).detach()) for param in params]
        for place, (part, param) in enumerate(zip(self._parts, params)):
            part.altgrad_shard_location, part.altgrad_share = location_of(param), _share_of(place, boxes, dist.get_rank(group))
            part.grad_dtype = reduce_dtype

    def part_of(self, place):
        return self._parts[place]

    def send(self):
        """Nothing travels, there or back."""
        self._pending = dict(enumerate(self._take_all()))

    def wait(self):
        came = self._pending is not None
        self.sum, self._pending = self._pending if came else self.sum, None
        return came

    def gather(self):
        return self


class GatheredMatrices(DTensorBucket):
    """DTensors of which each has an owner, who steps a plain parameter of its own that has all of it.

    Gradients travel to the owners and results back. Parameters travel to the owners where a rank `is_edited()`; otherwise
    the owners have them from the step before.
    """

    moves = True  # what lies here is read where it is another one

    def __init__(self, params, boxes, owners, group, reduce_dtype, reproducible):
        super().__init__(params, group, reduce_dtype)
        self._reproducible = reproducible
        self._rank = dist.get_rank(group)
        self._owned = [[place for place, owner in enumerate(owners) if owner == rank]
                       for rank in range(dist.get_world_size(group))]
        self._boxes = boxes
        firsts = [_first_ranks(place, boxes) for place in range(len(params))]
        self._sent = [[rank in first for first in firsts] for rank in range(len(boxes))]
        self._wholes = {place: torch.nn.Parameter(self._empty(place, params[place].dtype))
                        for place in self._owned[self._rank]}
        for whole in self._wholes.values():
            whole.grad_dtype = reduce_dtype
        self._written = None  # a digest of what came from the owners

    def is_edited(self):
        """Whether what lies here are other numbers than those that the owners have."""
        return self._written is None or not torch.equal(self._written, self._digest())

    def _digest(self):
        return digest_of([local_of(param).detach() for param in self.params])

    def _empty(self, place, dtype):
        param = self.params[place]
        return torch.empty(param.shape, dtype=dtype, device=local_of(param).device)

    def is_here(self, place):
        return place in self._wholes

    def part_of(self, place):
        if place in self._wholes:
            return self._wholes[place]
        return absent(self.params[place], self._reduce_dtype) if self._reproducible else remote_parameter(self.params[place])

    def grad_of(self, place):
        if place in self._wholes or not self._reproducible:
            return super().grad_of(place)
        return local_of(self.params[place]).new_empty(0, dtype=self._reduce_dtype)

    def send(self):
        """Begins to give owners the gradients, and the parameters where some rank has `edited` them."""
        self._sums = {place: self._empty(place, self._reduce_dtype) for place in self._wholes}
        self._pending = [self._to_owners(self._take_all(), self._sums)]
        if self.edited:
            self._pending.append(self._to_owners([local_of(param).detach() for param in self.params], self._wholes))

    def _to_owners(self, parts, wholes):
        given = [[parts[place] for place in of if self._sent[self._rank][place]] for of in self._owned]
        return AllToAll(given, [[_at(whole, boxes[place]) for place, whole in wholes.items() if sent[place]]
                                for boxes, sent in zip(self._boxes, self._sent)], parts[0], self._group)

    def wait(self):
        if not self._pending:
            return False
        for swap in self._pending:
            swap.wait()
        self.sum, self._pending = self._sums, None
        return True

    def gather(self):
        """Begins to give every rank its parts of what was stepped."""
        given = [[_at(whole, boxes[place]) for place, whole in self._wholes.items()] for boxes in self._boxes]
        values = [local_of(param).detach() for param in self.params]
        return AllToAll(given, [[values[place] for place in of] for of in self._owned], values[0], self._group, self._note)

    def _note(self):
        self._written = self._digest()


class AllToAll:
    """An all-to-all: every rank gives each one the tensors `given[rank]`; `wait()` puts what comes from each into `into[rank]`,
    and calls `then`."""

    def __init__(self, given, into, like, group, then=lambda: None):
        self._then = then
        self._into = [tensor for of in into for tensor in of]
        flat = [tensor.reshape(-1) for of in given for tensor in of]
        self._given = torch.cat(flat) if flat else like.new_empty(0)  # is read until all is there
        counts = [[sum([tensor.numel() for tensor in of]) for of in side] for side in (into, given)]
        self._came = self._given.new_empty(sum(counts[0]))
        self._work = dist.all_to_all_single(self._came, self._given, *counts, group=group, async_op=True)

    @torch.no_grad()
    def wait(self):
        with exchange("the exchange of matrices with their owners"):
            self._work.wait()
        for tensor, piece in zip(self._into, self._came.split([tensor.numel() for tensor in self._into])):
            tensor.copy_(piece.view(tensor.shape))
        self._then()


def _at(whole, box):
    """The part of a tensor in a box: (begin, size) of each dimension."""
    return whole.detach()[tuple([slice(begin, begin + size) for begin, size in box])]


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PERIOD = 4093  # a prime, so that rows that change places change it, too


def digest_of(tensors):
    """A number for each tensor, int64 on its device, which another one has if a bit of it is another one; writes through `.data`
    and of NumPy raise no version counter that could say so."""
    weights = torch.randint(-1 << 62, 1 << 62, (_PERIOD,), generator=torch.Generator().manual_seed(0), device="cpu") | 1
    weights, digests = weights.to(tensors[0].device), []
    for tensor in tensors:
        bits = tensor.contiguous().view(-1).view(_BITS[tensor.element_size()])
        whole = bits.numel() // _PERIOD * _PERIOD
        sums = bits[:whole].view(-1, _PERIOD).sum(0, dtype=torch.int64)
        digests.append((sums * weights).sum() + (bits[whole:] * weights[:bits.numel() - whole]).sum())
    return torch.stack(digests)


def _boxes_of(params, group):
    """[rank][place]: (begin, size) in each dimension of what lies there of a parameter."""
    mine = []
    for param in params:
        sizes, begins = box_of(param)
        mine += [number for of in zip(begins, sizes) for number in of]
    gathered = RankSet([group]).gather(torch.tensor(mine, dtype=torch.int64, device="cpu")).tolist()
    return [[tuple([(next(of), next(of)) for _ in param.shape]) for param in params] for of in map(iter, gathered)]


def _first_ranks(place, boxes):
    """The ranks that are the first ones to have what they have of a parameter, not of replicas."""
    firsts = {}
    for rank, of in enumerate(boxes):
        firsts.setdefault(of[place], rank)
    return set(firsts.values())


def _share_of(place, boxes, rank):
    """How sums over the ranks count what this one has of a parameter."""
    firsts = _first_ranks(place, boxes)
    return Share((-1, tuple(sorted(firsts))), rank in firsts, in_set=rank in firsts)


def make_dtensors(owner, params, groups, group, reduce_dtype, reproducible, units):
    """ShardedParameters and GatheredMatrices for DTensors and plain tensors beside them, which every rank has; `groups` has
    the options of each. Raises TypeError or ValueError for others.

    `reproducible`: what is cut within a chunk, in which a step sums, goes to its owner, too; `units`: vectors do, of which the
    program has one unit.
    """
    ranks = set(dist.get_process_group_ranks(group))
    for param in filter(is_dtensor, params):
        check_placements(owner.rpartition(".")[2], param)
        if not ranks.issuperset(param.device_mesh.mesh.flatten().tolist()):
            raise ValueError(f"{owner}: a parameter is on {param.device_mesh}, and the ranks of process_group are "
                             f"{sorted(ranks)}: give the group of all ranks of the mesh")
    made, kinds, boxes = [], {}, _boxes_of(params, group)
    cut = _cut_within_chunks(params, boxes) if reproducible else ()
    for place, param in enumerate(params):
        stays = not groups[param]["use_muon"] and place not in cut and not (units and param.dim() < 2) and all(
            [of.is_replicate() or of.dim == 0 for of in (param.placements if is_dtensor(param) else ())])
        kinds.setdefault((stays, param.dtype, local_of(param).device), []).append(place)
    for (stays, dtype, _), places in kinds.items():
        some, held = [params[place] for place in places], [[of[place] for place in places] for of in boxes]
        if not stays:
            check_reach(owner, some, group)
        costs = [cost_of(param, groups[param]) for param in some]
        made.append(ShardedParameters(some, held, group, reduce_dtype or dtype) if stays else
                    GatheredMatrices(some, held, owners_of(costs, group), group, reduce_dtype or dtype, reproducible))
    return made


def _cut_within_chunks(params, boxes):
    """The places of those whose parts on some rank begin within a chunk; of rows, as others have no parts that stay."""
    rows = [max(1, prod(param.shape[1:])) for param in params]
    return {place for of in boxes for place, (box, row) in enumerate(zip(of, rows))
            if box and all([size for _, size in box]) and box[0][0] * row % chunk()}
