"""One step of an altgrad optimizer under altgrad's GradScaler."""


class Scaling:
    """What the scaler tells the step, and what the step answers.

        Scaling(cells_of, variant, scale)

    `cells_of(device)` gives the Cells of a device, `variant` is the scaler's, `scale` the
    loss scale for whatever is not stepped by kernels: a number or a tensor. After the kernels
    `devices` are those whose cells know the next scale; `flag` is not 0 where the step
    was skipped.
    """

    def __init__(self, cells_of, variant, scale):
        self._cells_of, self.variant, self.scale = cells_of, variant, scale
        self.devices, self.flag, self._cells = [], 0.0, []

    def bind(self, tables):
        """Places the scaler's numbers where these tables find them."""
        for table in tables:
            cells = self._cells_of(table.where.device)
            self._cells.append(cells)
            if getattr(table, "scaler", None) is not cells:
                table.place([(index, cells.at[scalar.key])
                             for index, scalar in enumerate(table.bundle.singles)
                             if scalar.key in cells.at and scalar.role in ("scale", "scaler")])
                table.scaler = cells

    def stepped(self, tables):
        """Says that the kernels have run."""
        for table, cells in zip(tables, self._cells):
            cells.stepped()
            self.devices.append(table.where.device)
