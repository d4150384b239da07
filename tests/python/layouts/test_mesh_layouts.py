"""Some of the layouts of tools/soak.sh meshes: as one process, and checkpoints from each into each."""

import proof
import pytest


@pytest.mark.parametrize("layouts, reproducible", [(("alone", "FSDP2 on 3", "TP"), True), (("alone", "FSDP2 on 2", "HSDP"), False)])
def test_steps_are_those_of_one_process(layouts, reproducible, tmp_path):
    assert proof.prove(tmp_path, ["AdamW"], layouts, reproducible) == len(layouts)
