"""Optimizers that keep squares beside a matrix: rows x rows and columns x columns, whose bases or roots precondition it."""

from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.layout import is_dtensor
from .._binding.matrix_blocks import blocks_of, check_blocks
from .._binding.shards import shape_of
from .._core import core
from .._warn import warn
from ._keywords import Shared
from ._named import BETAS, Named, constructor
from ._owners import MatrixOwners
from ._shapes import matrices_of
from ._timed import Timed

__all__ = ["SOAP", "Shampoo"]


class Preconditioned(Timed, MatrixOwners, Named):
    """An optimizer of matrices with squares, of which some steps compute more than others.

    A parameter of one dimension, and a side that is longer than `max_precond_dim`, have no square; with `blocks` the matrix is cut
    along such a side, and each block steps as a parameter of its own.
    """

    _has_fallen_back = False
    _decides = "precondition_frequency", "max_precond_dim", "merge_dims", "precondition_1d", "factorize", "blocks"

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options, *_ = super()._group_rule_with(group_rule, matrices, param)
        sizes = (matrices.rows, matrices.columns) if matrices else (1, 1)
        most = self._group_of(param)["max_precond_dim"]
        return rule, (*options, *[word for word, size in zip(("row_free", "column_free"), sizes) if not 1 < size <= most])

    def _matrices_of(self, group, param):
        column = param.dim() == 1 and self._has_basis(group)
        if not column and param.dim() < 2:
            return None
        found = matrices_of({"flatten": True, "split": None}, param.detach()[:, None] if column else param)
        if group.get("merge_dims") and not column:
            shape, most = shape_of(param), group["max_precond_dim"]
            sizes = merged(shape, most)
            if len(sizes) > 2:
                raise ValueError(f"of shape {tuple(shape)} is merged to {sizes}, as products of neighbours are at most max_precond_dim = "
                                 f"{most}, and that is no matrix: give a group with it a larger max_precond_dim, or merge_dims=False")
            found.rows, found.columns = sizes[0], prod(sizes[1:])
        return found

    def _blocks_of(self, group, param, held):
        matrices, blocks = self._matrices_of(group, param), [None]
        if matrices and group.get("blocks") and not is_dtensor(param):  # which steps in blocks where it is a whole
            blocks = blocks_of(param, matrices.rows, matrices.columns, group["max_precond_dim"])
        if blocks != [None] and self.offload:
            raise ValueError("is stepped in blocks where it lies, and offload=True steps it on the host: leave one of them out")
        for block in filter(None, blocks):
            block.matrices = _matrix_of(block.shape)
        check_blocks(blocks, held, self._count_key)
        return blocks

    def _has_basis(self, group):
        """Whether a parameter of one dimension is a matrix of one column."""
        return group.get("precondition_1d")

    def _check_group(self, group, where):
        for key in ("precondition_frequency", "max_precond_dim"):
            if group[key] % 1 != 0 or group[key] < 1:
                raise ValueError(f"{where}: {key} is {group[key]}, not a whole number of at least 1")
        if group["blocks"] not in (True, False):
            raise ValueError(f"{where}: blocks is {group['blocks']!r}, neither True nor False; max_precond_dim says how long its sides are")
        if group["factorize"] not in ("torch", "products"):
            raise ValueError(f"{where}: factorize is {group['factorize']!r}, neither 'torch' nor 'products'")
        if group["factorize"] != self.param_groups[0]["factorize"]:
            raise ValueError(f"{where}: factorize is {group['factorize']!r}, and that of group 0 is "
                             f"{self.param_groups[0]['factorize']!r}: give all groups the same")
        for index, param in enumerate(group["params"]):
            try:
                self._blocks_of(group, param, {})
            except ValueError as error:
                raise ValueError(f"{where}, parameter {index} {error}") from None

    def _rebuild(self, fit, settings):
        super()._rebuild(fit, settings)
        if self._built and self.param_groups[0]["factorize"] == "products":
            for table in self._built.tables:
                table.factorize_by_products()

    def _run(self, scalars, scaler, own):
        before = core().altgrad_core_fallen_back()
        super()._run(scalars, scaler, own)
        if core().altgrad_core_fallen_back() > before and not self._has_fallen_back:
            self._has_fallen_back = True
            warn(f"altgrad.optim.{type(self).__name__}: products alone give no accurate root or basis of a square, which is close to "
                 "singular or has eigenvalues below 0: torch has factorized it, as it will others without a warning. "
                 "factorize=\"torch\" does so from the start")


@lru_cache(1 << 8)
def _matrix_of(shape):
    return matrices_of({"flatten": True, "split": None}, torch.empty(shape, device="meta"))


def _every(group):
    return max(1, int(group["precondition_frequency"]))  # less is refused when the step has its options


def merged(shape, most):
    """The dimensions as the authors of SOAP and Distributed Shampoo merge neighbours, whose product is at most `most`."""
    first, *others = [size for size in shape if size != 1] or [1]
    sizes = [first]
    for size in others:
        if sizes[-1] * size <= most:
            sizes[-1] *= size
        else:
            sizes.append(size)
    return tuple(sizes)


class SOAP(Preconditioned):
    """SOAP (N. Vyas et al., 2024) with the arguments of its authors: Adam in the eigenbasis of Shampoo's preconditioners.

        L += (1 - shampoo_beta) (g gᵀ - L);  R += (1 - shampoo_beta) (gᵀ g - R);  x = QLᵀ g QR
        m = beta1 m + (1 - beta1) x;  v = beta2 v + (1 - beta2) x^2;  u = QL (m / (sqrt(v) + eps)) QRᵀ
        p -= lr sqrt(1 - beta2^n) / (1 - beta1^n) u;  p -= lr weight_decay p

    The first step makes the bases QL and QR, the eigenvectors of L and R, and moves no parameter; n counts the steps
    after it. Every `precondition_frequency` steps both turn by one power iteration and a QR decomposition, and m and v
    with them. `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the basis, in the shape and dtype
    of the parameter, `row_gram` and `row_basis` of shape (rows, rows), and `column_gram` and `column_basis` of shape
    (columns, columns), in float32. A parameter of more than two dimensions is one matrix with a row for each index of
    dimension 0, or with `merge_dims` as the authors merge dimensions: neighbours become one as long as their product is at
    most `max_precond_dim`, so that (64, 3, 3, 3) is (1728,), which counts as one column, and with max_precond_dim=200 (192, 9).
    Where more than two are left, the optimizer is refused. One of a single dimension takes the steps of Adam without a basis, or with
    `precondition_1d` is a matrix of one column. torch multiplies and factorizes. The formula is in templates/soap.mlir.

    Args:
        betas: The decay rates of the averages in the basis.
        shampoo_beta: The decay rate of L and R, below 1; a negative number stands for the second of `betas`.
        precondition_frequency: After how many steps the bases turn.
        max_precond_dim: The longest side that has a basis.
        merge_dims: Whether neighbouring dimensions are merged, those of matrices, too.
        precondition_1d: Whether a parameter of one dimension has a basis, too.
        normalize_grads: Whether the update is divided by its root mean square.
        correct_bias: Whether the averages are corrected for their begin.
        factorize: Who finds a basis every `precondition_frequency` steps, in all groups: "torch" by its QR decomposition,
            "products" by Cholesky factors of a Gram matrix, twice. Where these are not accurate, as of singular squares, which a
            matrix of one row or of zeros has, torch does it and a warning says so once. The first step's bases are torch's.
        blocks: Whether a matrix with longer sides is cut into blocks, as Shampoo takes it; the authors' class does not.

    Raises:
        ValueError: `precondition_frequency` or `max_precond_dim` is no whole number from 1 on, `factorize` neither word, or a
            parameter with `merge_dims` no matrix. In a step, the matrix of a parameter that is cut into blocks is no view of it.
        altgrad.Error: A square cannot be factorized. Nothing has changed then.

    Example:
        >>> optimizer = altgrad.optim.SOAP(model.parameters(), lr=3e-3, precondition_frequency=10)
    """

    _hypers = BETAS
    _options = {"normalize": lambda g: g["normalize_grads"], "uncorrected": lambda g: not g["correct_bias"]}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 3e-3, betas: tuple[float, float] = (0.95, 0.95),
                 shampoo_beta: float = -1, eps: float = 1e-8, weight_decay: float = 0.01,
                 precondition_frequency: int = 10, max_precond_dim: int = 10000, merge_dims: bool = False,
                 precondition_1d: bool = False, normalize_grads: bool = False, correct_bias: bool = True, factorize: str = "torch",
                 blocks: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _words_at(self, step, group):
        return ("first",) if step == 1 else ("refresh",) if (step - 1) % _every(group) == 0 else ()

    def _check_group(self, group, where):
        super()._check_group(group, where)
        if not group["shampoo_beta"] < 1:
            raise ValueError(f"{where}: shampoo_beta is {group['shampoo_beta']}, not below 1")


class Shampoo(Preconditioned):
    """Shampoo (V. Gupta et al., 2018) with arguments of Meta's DistributedShampoo: roots of Gram matrices on both sides.

        L = beta2 L + (1 - beta2) g gᵀ, or for beta2 = 1 L + g gᵀ;  R alike of gᵀ g;  m = beta1 m + (1 - beta1) g
        u = (L / c + epsilon)^(-1/4) m / (1 - beta1^t) (R / c + epsilon)^(-1/4), where c = 1 - beta2^t, or 1
        p -= lr (u + weight_decay p)

    With `grafting_type` u gets the length of Adam's update. Roots are computed every `precondition_frequency`
    steps, the first time in step `start_preconditioning_step`; before that step u is Adam's update, or without grafting
    m / (1 - beta1^t). A side beyond `max_precond_dim` has no square, and the other one the exponent -1/2: with
    max_precond_dim below the longer side this is one-sided Shampoo. With `blocks`, as there, the matrix is cut instead into
    blocks of at most `max_precond_dim` rows and columns, each of which takes the steps of a parameter of its own, with its own
    squares and its own length of Adam's update. `state[param]` holds `step` (0-dim float32), `exp_avg`
    and with a `grafting_type` `exp_avg_sq` in the shape and dtype of the parameter, `row_gram` and `row_root` of shape
    (rows, rows), and `column_gram` and `column_root` of shape (columns, columns), in float32. A parameter of more than two
    dimensions is one matrix with a row for each index of dimension 0. One of a single dimension has no roots. With
    `merge_dims`, which is use_merge_dims there, neighbouring dimensions become one as long as their product is at most
    `max_precond_dim`, as in SOAP, and what is of a single dimension then is a matrix of one column. Of a parameter that is cut
    into blocks, `state[param]` holds the same of each block: `block_0.step`, `block_0.row_gram` and so on, those of the first
    rows in front. The formula is in templates/shampoo.mlir.

    Args:
        betas: The decay rates of the momentum, and of L and R; 1 adds up all Gram matrices.
        epsilon: A number that is added to the eigenvalues of L and R. Those below 1e-7 of the largest magnitude count as so much.
        max_precond_dim: The longest side that has a square.
        merge_dims: Whether neighbouring dimensions are merged, those of matrices, too.
        precondition_frequency: After how many steps roots are computed.
        start_preconditioning_step: The first step with roots; -1 is `precondition_frequency`.
        grafting_type: "adam": an update of Adam says how long a step is; None for steps of Shampoo's length.
        grafting_beta2: The decay rate of that Adam's average of squares.
        grafting_epsilon: What it adds to the denominator.
        factorize: Who finds roots, in all groups: "torch" by eigenvectors, "products" by coupled Newton iterations, which
            add 1e-7 of a bound of the largest eigenvalue to all: steps of a singular square differ by per cents from those by
            eigenvectors, unless grafted. Where these do not converge, torch does it and a warning says so once.
        blocks: Whether a matrix with a longer side is cut into blocks: (3000, 2000) into three times two with at most 1024 rows
            and columns. Dimensions are merged first. A parameter whose matrix is no view of it, as of filters in
            torch.channels_last, is refused, and so is `offload`.

    Raises:
        ValueError: `precondition_frequency` or `max_precond_dim` is no whole number from 1 on, `factorize` neither word, or a
            parameter with `merge_dims` no matrix. In a step, the matrix of a parameter that is cut into blocks is no view of it.
        altgrad.Error: A square cannot be factorized. Nothing has changed then.

    Example:
        >>> optimizer = altgrad.optim.Shampoo(model.parameters(), lr=1e-3, betas=(0.9, 0.999), grafting_type="adam")
    """

    _hypers = {**BETAS, "eps": "epsilon", "graft_beta2": "grafting_beta2", "graft_eps": "grafting_epsilon"}
    _options = {"graft": lambda g: g["grafting_type"] is not None}
    _only_with = {"v": "graft", "row_root": "root", "column_root": "root"}
    _spelled = {"graft": "grafting_type"}
    _unchecked = "betas",

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, betas: tuple[float, float] = (0.9, 1.0),
                 epsilon: float = 1e-12, weight_decay: float = 0.0, max_precond_dim: int = 1024,
                 precondition_frequency: int = 1, start_preconditioning_step: int = -1,
                 grafting_type: str | None = None, grafting_beta2: float = 0.999, grafting_epsilon: float = 1e-8,
                 merge_dims: bool = False, factorize: str = "torch", blocks: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _has_basis(self, group):
        return group.get("merge_dims")

    def _words_at(self, step, group):
        every, start = _every(group), group["start_preconditioning_step"]
        start = every if start < 0 else start
        return ("early",) if step < start else ("root",) if step == start or step % every == 0 else ()

    def _check_group(self, group, where):
        super()._check_group(group, where)
        beta1, beta2 = group["betas"]
        if not (0 <= beta1 < 1 and 0 <= beta2 <= 1):
            raise ValueError(f"{where}: betas are {group['betas']}, not from 0, the first below 1 and the second up to 1")
        if not group["epsilon"] >= 0:
            raise ValueError(f"{where}: epsilon is {group['epsilon']}, not at least 0")
        if group["grafting_type"] not in (None, "adam"):
            raise ValueError(f"{where}: grafting_type is {group['grafting_type']!r}, neither None nor 'adam'")
        if not (0 <= group["grafting_beta2"] < 1 and group["grafting_epsilon"] >= 0):
            raise ValueError(f"{where}: grafting_beta2 is {group['grafting_beta2']} and grafting_epsilon {group['grafting_epsilon']}, not "
                             "from 0, the first below 1")
