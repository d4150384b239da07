"""What tools/bench_ranks.py counts is what a ring sends, and tools/model_ranks.py shares out what is shared out."""

import json
import pathlib
import subprocess
import sys

import pytest
import ranks

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools"
sys.path.append(str(TOOLS))
import bench_ranks  # noqa: E402
import model_ranks  # noqa: E402


def test_the_counts_are_those_of_rings(tmp_path):
    (answers,) = ranks.run([bench_ranks.Rank(64, 1)], tmp_path)
    elements = 4 * 65 * 64
    for answer in answers:
        assert not isinstance(answer, str), answer
        sent = {way: sum(row["sent"].values()) / elements for way, row in answer.items()}
        # Of float32 on two ranks half of the whole is sent, by an all-reduce twice; FSDP2 gathers twice.
        assert sent["DDP, torch fused"] == 4.0 and sent["FSDP2, altgrad"] == sent["FSDP2, torch fused"] == 6.0
        assert 4.0 <= sent["DistAdamW"] < 8.0  # a bucket ends on a whole chunk
        assert all(answer[way]["states"] == 4 * elements for way in ("FSDP2, torch fused", "FSDP2, altgrad"))


def test_the_model_says_that_it_is_one_and_divides_what_is_divided():
    said = subprocess.run([sys.executable, TOOLS / "model_ranks.py", "--parameters", "1e9"], capture_output=True, text=True,
                          check=True).stdout.splitlines()
    assert said[0] == "A model, not a measurement."
    ways = [*json.loads((TOOLS / "bench_ranks.json").read_text())["ways"], *model_ranks.DERIVED, "DistMuon"]
    rows = {(int(line.split()[0]), line[8:36].strip()): [float(number) for number in line[36:].split()] for line in said[3:]}
    assert rows.keys() == {(gpus, way) for gpus in model_ranks.GPUS for way in ways}
    for gpus in (8, 64):
        assert rows[gpus, "DDP, torch fused"][4:6] == [8.0, 8.0]
        assert rows[gpus, "FSDP2, altgrad"][4] == pytest.approx(8 / gpus, abs=0.06) and rows[gpus, "HSDP"][4] == 1.0
    for ring, tree, exposed, serial, *memory in rows.values():
        assert tree <= ring and exposed <= serial and memory[2] == pytest.approx(memory[0] + memory[1], abs=0.11)
    assert rows[4096, "HSDP"][2] < rows[4096, "FSDP2, altgrad"][2]  # what goes across nodes is a node's share
