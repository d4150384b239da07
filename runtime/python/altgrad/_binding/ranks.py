"""The processes that take a step together, and how what each of them counts comes to all of them."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import torch

from .layout import is_dtensor
from .rank_sets import RankSet
from .shards import is_elsewhere, replicated_dims

# Of the entries of a param_group, what is no tensor.
_COMPARABLE = bool, int, float, str, tuple, type(None)
# Entries that may be others on each rank.
_OF_RANK = "seed", "draws"


@dataclass(frozen=True, slots=True)
class Share:
    """How a parameter takes part in sums over the step.

    `key` is the same on all ranks; parameters that have it are counted on the same ranks. `counted`: whether on this
    one. `top` says to which of `Ranks.tops` the sum goes. `set` is the RankSet that has the other parts, or None, and
    `in_set` says whether sums over it alone count what is here.
    """

    key: tuple = (-1, ())
    counted: bool = True
    top: int = 0
    set: RankSet | None = None
    in_set: bool = True


class Ranks:
    """The processes that take a step together; false where this one is alone.

        Ranks(meshes, group)

    `meshes` are those of DTensors, `group` is a process group or None.

    - `sets`: a RankSet for the ranks of each mesh, smaller ones first. This is one order of all sets of all ranks, so
      ranks that exchange in it wait for each other in no circle, whatever other sets they have.
    - `tops`: the sets that are part of no other one. Sums over the step go over these alone: each rank gives what it
      counts, whichever mesh that is of, so one exchange is enough where one mesh has all ranks.

    Every element is counted on one rank. A mesh that is a slice of another one has replicas along the other's other
    dimensions, as a plain tensor has along all of them; a mesh of its own has parameters of its own. Without DTensors
    the ranks of `group` hold different parameters. With them the ranks of a mesh hold the same, and the first one of
    them that is in `group` speaks for all.
    """

    def __init__(self, meshes=(), group=None):
        meshes = sorted(set(meshes), key=_order)
        members = {mesh: frozenset(mesh.mesh.flatten().tolist()) for mesh in meshes}
        self._outer = RankSet([group]) if group is not None else None
        alike = {}
        for mesh in meshes:
            alike.setdefault(members[mesh], []).append(mesh)
        sets = {ranks: RankSet.of_mesh(some[0]) for ranks, some in alike.items() if len(ranks) > 1}
        self.sets = list(sets.values())
        tops = [ranks for ranks in sets if not any([ranks < other for other in sets])]
        self.tops = [sets[ranks] for ranks in tops] or [of for of in [self._outer] if of]
        self._meshes, self._shares = {}, {}
        for place, mesh in enumerate(meshes):
            ranks = members[mesh]
            top = max([index for index, of in enumerate(tops) if ranks <= of], default=None)
            once = top is None or ranks == tops[top] or not _is_slice(mesh) or self.tops[top].first in ranks
            self._meshes[mesh] = place, once, top or 0, sets.get(ranks)
        self._speaks = not (self._outer and meshes) or _speaks(tops, members.values(), self._outer)
        # Of what is on all ranks of a mesh, its first one.
        self._plain = Share(counted=not tops or self.tops[-1].is_first(), top=max(0, len(tops) - 1))
        if self._outer and not tops:
            self._outer, self._part = None, Share(set=self._outer)
        else:
            self._part = Share(set=self._outer)

    def __bool__(self):
        return bool(self.tops)

    @property
    def everyone(self):
        """The RankSet of all; None where one mesh does not have all of them, or this rank is alone."""
        return self.tops[0] if len(self.tops) == 1 and not self._outer else None

    def share(self, tensor, at=None):
        """The Share of a parameter or a gradient; `at` is the ShardLocation of one that says its own."""
        if not is_dtensor(tensor):
            own = getattr(tensor, "altgrad_share", None if at is None else self._part)
            return self._plain if own is None else replace(own, set=self._part.set)
        mesh, key = tensor.device_mesh, (tensor.device_mesh, tensor.placements)
        if key not in self._shares:
            (place, once, top, of), copies = self._meshes[mesh], replicated_dims(tensor)
            in_set = not any([mesh.get_local_rank(dim) for dim in copies])
            self._shares[key] = Share((place, copies), once and in_set, top, of, in_set)
        return self._shares[key]

    def sum(self, shares):
        """The sum of what every rank counts: `shares` has what this one does for each of `tops`, 0-dim tensors or numbers."""
        total = reduce(add, [of.sum(share) for of, share in zip(self.tops, shares)]) if self.tops else shares[0]
        return self._outer.sum(total if self._speaks else total * 0.0) if self._outer else total

    def worst(self, value):
        """The largest value of all ranks, a 0-dim tensor or a number."""
        for of in [*self.tops, *[self._outer] * bool(self._outer)]:
            value = of.worst(value)
        return value

    def check(self, optimizer, rows, sums):
        """Raises ValueError where another rank has other parts to add up than `rows`, on all ranks that have such parts.
        All of them have others in the same step, so they ask in the same. The first time they also ask for versions,
        options and the `sums` of rules over the step, False where no rule of the class has any, and every rank hears of what
        is wrong."""
        begins, wrong = not optimizer._agreed, None
        agreed = set(optimizer._agreed)
        for of in self.sets:
            text = repr([(row.at.shape, row.line, row.index, row.share.key[1]) for row in rows
                         if row.at and row.at.parted and row.share.set is of])
            facts = _facts(optimizer, self, of) if begins else {}
            for words in [repr(facts)] * begins + [text]:
                if (known := (of.members, hash(words))) in agreed:
                    continue
                if (other := of.agree(words)) is not None:
                    names = () if words is text else of.differences(facts)
                    difference = f"differs in {' and '.join(names) or 'its groups'} from" if words is not text else (
                        "has other DTensors with gradients, another order of them, or other options than")
                    wrong = wrong or (f"rank {other} of {of} {difference} rank {of.first}, so that the ranks cannot step and "
                                      "add up their parts alike")
                agreed.add(known)
        for of in [*self.tops, *[self._outer] * bool(self._outer)] if begins and sums is not False else ():
            if (other := of.agree(words := repr(sums))) is not None:
                wrong = wrong or (f"rank {other} of {of} has rules with other sums over the step than rank {of.first}: give the "
                                  "groups of all rules to every rank, without parameters where it has none")
            agreed.add((of.members, hash(words)))
        for of in self.tops if begins and self.sets else ():
            if of.worst(float(wrong is not None)):
                wrong = wrong or "another rank has other DTensors, options or versions than those that share parameters with it"
        if wrong:
            raise ValueError(f"altgrad.optim.{type(optimizer).__name__}: {wrong}")
        optimizer._agreed = frozenset(agreed)


def ranks_of(optimizer):
    """The Ranks of an optimizer: those of its process_group, and of the meshes of its DTensors."""
    return Ranks([param.device_mesh for of in optimizer.param_groups for param in of["params"]
                  if is_dtensor(param) and not is_elsewhere(param)], optimizer.process_group)


def _order(mesh):
    """Puts meshes in one order, and slices of one mesh in one place of it whatever ranks they have."""
    ranks = mesh.mesh.flatten().tolist()
    return len(ranks), [rank - ranks[0] for rank in ranks], tuple(mesh.shape), ranks[0]


def _is_slice(mesh):
    """Whether a mesh is cut out of a larger one, along whose other dimensions there are replicas."""
    return mesh._get_root_mesh().size() > mesh.size()


def _speaks(tops, members, outer):
    """Whether this rank gives a process_group what its meshes have added up: one of their ranks there does."""
    import torch.distributed as dist
    every = frozenset().union(*members)
    shared, here = every.intersection(outer.members), dist.get_rank()
    if len(shared) > 1 and (len(tops) != 1 or tops[0] != every):
        raise ValueError(f"process_group has the ranks {sorted(shared)} of several meshes, none of which has all: give the "
                         "group of ranks that have no mesh in common")
    return here == min(shared, default=here)


def _facts(optimizer, ranks, of):
    """What all ranks of a set say alike: versions, the class, and the options of groups that have parameters of the set."""
    from .. import __version__
    facts = {"version of altgrad": __version__, "version of torch": torch.__version__, "class": type(optimizer).__name__}
    for index, group in enumerate(optimizer.param_groups):
        if any([is_dtensor(param) and not is_elsewhere(param) and ranks.share(param).set is of for param in group["params"]]):
            facts |= {f"{key} of group {index}": value for key, value in sorted(group.items()) if key in optimizer.defaults
                      and isinstance(value, _COMPARABLE) and key not in _OF_RANK}
    return facts
