"""The statistics of a training run, step by step, and a picture of them."""

import os
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ._optimizer import Optimizer

# Columns that are the least, the middle and the greatest of all parameters.
_SPREAD = "grad_norm", "ratio"
_PLACES = "min", "median", "max"


class Record:
    """Collects the statistics of a training run, step by step.

    The numbers stay on the device, which is not waited for, until `table` is asked.

    Args:
        optimizer: An optimizer of altgrad that was made with `statistics=True`.
        scaler: A GradScaler of altgrad or torch, whose loss scale is recorded, too, or None.

    Raises:
        RuntimeError: The optimizer was made without `statistics=True`.

    Example:
        >>> record = altgrad.optim.Record(optimizer, scaler)
        >>> for x, y in batches:
        ...     scaler.scale(loss_of(x, y)).backward()
        ...     scaler.step(optimizer)
        ...     record.add()
        ...     scaler.update()
        >>> record.plot("run.png")
    """

    def __init__(self, optimizer: "Optimizer", scaler: torch.amp.GradScaler | None = None) -> None:
        self._optimizer, self._scaler, self._rows = optimizer, scaler, []
        optimizer.statistics()  # raises where there are none

    @torch.no_grad()
    def add(self) -> None:
        """Adds a row: `Statistics.summary`, the extremes and medians of all parameters, and the loss scale now."""
        stats = self._optimizer.statistics()
        row = stats.summary()
        for key in _SPREAD:
            row |= {f"{key}_{place}": value for place, value in zip(_PLACES, _spread(getattr(stats, key)))}
        if self._scaler is not None:
            scale = scale_of(self._scaler)
            row["loss_scale"] = scale if isinstance(scale, torch.Tensor) else torch.tensor(
                scale, dtype=torch.float64, device="cpu")
        device = row["grad_norm"].device
        self._rows.append((tuple(row), torch.stack([
            value.to(device, torch.float64, non_blocking=device.type != "cpu")
            for value in row.values()])))

    def table(self) -> dict[str, list[float]]:
        """{column: list}, with a row for each `add`, as pandas.DataFrame and json take it. Waits for the device."""
        if not self._rows:
            return {}
        names = self._rows[0][0]
        return dict(zip(names, torch.stack([row.cpu() for _, row in self._rows]).T.tolist()))

    def plot(self, path: "str | os.PathLike[str] | None" = None) -> "Figure":
        """`plot_run` of `table()`, written to `path` if there is one."""
        return plot_run(self.table(), path)


def plot_run(table: dict[str, list[float]], path: "str | os.PathLike[str] | None" = None) -> "Figure":
    """Draws what `Record.table` gave over the steps: norms, update ratios, lost updates, clip rate, loss scale.

    Tables of a run that was resumed may be joined, column by column. Needs matplotlib, and no display.

    Args:
        table: {column: list} of `Record.table`.
        path: The picture's file, whose ending says the kind; None writes none.

    Returns:
        A matplotlib Figure.

    Raises:
        RuntimeError: matplotlib cannot be imported.
        ValueError: The table has no rows.

    Example:
        >>> altgrad.optim.plot_run(record.table(), "run.png")
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RuntimeError("altgrad.optim.plot_run draws with matplotlib, which cannot be imported here "
                           f"({error}): pip install matplotlib, or draw table() elsewhere") from error
    if not table or not table["steps"]:
        raise ValueError("altgrad.optim.plot_run: nothing was recorded; call Record.add() after each step")
    scaled = "loss_scale" in table
    figure = Figure(figsize=(7, 7.5 if scaled else 6), layout="constrained")
    axes = figure.subplots(4 + scaled, sharex=True)
    steps = table["steps"]
    for axis, key, words in zip(axes, _SPREAD, ("gradient norm", "update / weight")):
        axis.fill_between(steps, table[f"{key}_min"], table[f"{key}_max"], alpha=0.25, linewidth=0,
                          label="least to greatest")
        axis.plot(steps, table[f"{key}_median"], linewidth=0.8, label="median")
        axis.plot(steps, table[key], linewidth=0.8, color="black", label="of all together")
        axis.set_ylabel(words)
        _scale_with_zero(axis, [*table[key], *table[f"{key}_median"], *table[f"{key}_min"], *table[f"{key}_max"]])
    axes[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="x-small", title="parameters",
                   title_fontsize="x-small")
    axes[2].plot(steps, [100 * share for share in table["lost_share"]], linewidth=0.8)
    axes[2].set(ylabel="lost updates, %", ylim=(-0.05 * max(1e-3, axes[2].get_ylim()[1]), None))
    axes[3].plot(steps, _clip_rates(table), linewidth=0.8)
    axes[3].set(ylabel="clip rate", ylim=(-0.05, 1.05))
    if scaled:
        axes[4].step(steps, table["loss_scale"], linewidth=0.8)
        axes[4].set_yscale("log", base=2)
        axes[4].set_ylabel("loss scale")
    skipped = [step for step, now, before in zip(steps, table["skipped"], [0, *table["skipped"]]) if now > before]
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.vlines(skipped, 0, 0.06, color="tab:red", linewidth=0.8, transform=axis.get_xaxis_transform())
    axes[-1].set_xlabel(f"step; red: {len(skipped)} skipped" if skipped else "step")
    if path is not None:
        figure.savefig(path, dpi=100)
    return figure


def _scale_with_zero(axis, values):
    """A logarithmic axis that goes on below the least value above 0, to a 0."""
    above = [value for value in values if 0.0 < value < float("inf")]
    if 0.0 in values and above:
        axis.set_yscale("symlog", linthresh=min(above), linscale=0.5)
        axis.set_ylim(bottom=-0.1 * min(above))
        axis.axhline(0.0, color="black", linewidth=0.4)
    elif above:
        axis.set_yscale("log")


def _clip_rates(table):
    """The share of clipped steps among the last fiftieth of the run, at least ten steps."""
    steps, clipped = table["steps"], table["clipped_steps"]
    window = max(10, len(steps) // 50)
    return [(clipped[now] - clipped[max(0, now - window)] if now else clipped[0])
            / max(1, steps[now] - steps[max(0, now - window)] if now else steps[0])
            for now in range(len(steps))]


def _spread(values):
    """(min, median, max) of what is a number, NaN where nothing is."""
    known = ~values.isnan()
    none = torch.full((), float("nan"), dtype=values.dtype, device=values.device)
    least = values.where(known, torch.inf).amin().where(known.any(), none)
    most = values.where(known, -torch.inf).amax().where(known.any(), none)
    return least, values.nanmedian(), most


def scale_of(scaler):
    """A copy of the loss scale on its device, because get_scale() would wait for a GPU."""
    lazy = getattr(scaler, "_get_scale_async", None)
    scale = lazy() if lazy and scaler.is_enabled() else None
    return scaler.get_scale() if scale is None else scale.detach().clone()
