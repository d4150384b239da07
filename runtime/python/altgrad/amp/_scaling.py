"""One step of an optimizer of ours under a GradScaler of ours."""

import torch

_SKIPPED = "skipped"


class Scaling:
    """What the step is told, and what it says.

        Scaling(cells_of, variant, scale)

    `cells_of(device)` gives the Cells of a device, `variant` is the scaler's, `scale` the
    loss scale for whatever is not stepped by kernels: a number or a tensor. Afterwards
    `devices` are those whose cells know the next scale, and `flag` is not 0 where the
    step was skipped.
    """

    def __init__(self, cells_of, variant, scale):
        self._cells_of, self.variant, self.scale = cells_of, variant, scale
        self.devices, self.flag = [], 0.0

    def bind(self, tables, skips):
        """Places the scaler's numbers where these tables find them; {device: skipped steps}."""
        skips = dict(skips)
        for table in tables:
            device = table.where.device
            cells = self._cells_of(device)
            if device not in skips:
                skips[device] = _count_on(device, skips)
            if getattr(table, "scaler", None) != (cells, skips[device]):
                table.place([(index, skips[device] if scalar.key == _SKIPPED
                              else cells.at[scalar.key])
                             for index, scalar in enumerate(table.bundle.singles)
                             if scalar.role in ("scale", "scaler")])
                table.scaler = cells, skips[device]
            self.devices.append(device)
        return skips


def _count_on(device, skips):
    """A count of skipped steps that goes on from those of other devices."""
    with torch.inference_mode(False):
        count = torch.zeros((), dtype=torch.int64, device=device)
        for known in skips.values():
            return count.copy_(known)
        return count
