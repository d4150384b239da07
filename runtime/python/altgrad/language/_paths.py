"""The paths of a function that branches: each is run, and what they make is joined."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._errors import RuleError, fail, fail_at, here, location_of

if TYPE_CHECKING:
    from ._trace import Symbol

_MOST = 1024  # those of a second parameter among them, see Source._update
_LOOPS = 10_000  # branches of one path; a loop on a condition that stays as it is has no end


class Paths:
    """On which side of its branches a function is now: both are taken, one after another."""

    def __init__(self) -> None:
        self._decided: tuple[bool, ...] = ()
        self._branches = 0
        self._place: Any = None  # of the last new branch
        self.taken: "list[tuple[Symbol, bool]]" = []

    def side_of(self, condition: "Symbol") -> bool:
        """The side of a branch on this path, which is the same for the same condition."""
        self._branches += 1
        if self._branches > _LOOPS or len(self.taken) >= _MOST:
            fail(f"a loop with more than {min(self._branches, _LOOPS)} branches, which tracing does not leave: it runs both ways at each; "
                 "write `for` over range(), and choose in it by a condition")
        for other, side in self.taken:
            if other.name == condition.name:
                return side
        self._place = here()
        side = self._decided[len(self.taken)] if len(self.taken) < len(self._decided) else True
        self.taken.append((condition, side))
        return side

    def dropped(self, error: BaseException) -> None:
        """Notes the error of a path that is none."""

    def joined(self, body: Callable[[], Any], join: "Callable[[Symbol, Any, Any], Any]", refused: Any = ()) -> Any:
        """What `body` makes over all paths: `join(condition, yes, no)` makes one of two sides. A path is none that ends with
        an error of the kinds `refused`, if another one does not."""
        paths, todo, wrong = [], [()], None
        while todo:
            self._decided, self.taken, self._branches = todo.pop(), [], 0
            try:
                paths.append((body(), list(self.taken)))
            except RuleError:
                raise
            except refused as error:
                if not self.taken:
                    raise
                wrong = error
                self.dropped(error)
            if len(paths) + len(todo) > _MOST:
                fail_at(location_of(*self._place), f"more than {_MOST} paths by branches on the step or on numbers of tensors, each of "
                        "which doubles them: join conditions by &, or choose by where(condition, a, b)")
            sides = [side for _, side in self.taken]
            todo += [(*sides[:depth], not sides[depth]) for depth in range(len(self._decided), len(sides))]
        if not paths:
            raise wrong
        return _join(paths, 0, join)


def _join(paths, depth, join):
    if len(paths) == 1:
        return paths[0][0]
    condition = paths[0][1][depth][0]
    sides = [[path for path in paths if path[1][depth][1] is side] for side in (True, False)]
    if not all(sides):
        return _join(sides[0] or sides[1], depth + 1, join)
    return join(condition, *[_join(side, depth + 1, join) for side in sides])
