"""Some of the layouts of tools/soak.sh meshes: the bits of one process, and checkpoints from each into each."""

import proof
import pytest


@pytest.mark.parametrize("case, layouts", [("AdamW", ("alone", "FSDP2 on 3", "TP")), ("Muon", ("alone", "DDP", "TP and FSDP2")),
                                           ("AdamW8bit", ("alone", "ZeRO-2", "experts"))])
def test_reproducible_steps_have_the_bits_of_one_process(case, layouts, tmp_path):
    proof.prove(tmp_path, [case], layouts)


@pytest.mark.parametrize("case, layouts", [("LAMB", ("alone", "HSDP", "modules of experts"))])
def test_other_steps_are_within_the_bounds(case, layouts, tmp_path):
    proof.prove(tmp_path, [case], layouts, reproducible=False)
