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
    ways = json.loads((TOOLS / "bench_ranks.json").read_text())["ways"]
    rows = {(int(line.split()[0]), way): [float(number) for number in line.split()[-4:]] for line in said[3:]
            for way in ways if way in line}
    assert {gpus for gpus, _ in rows} == {8, 16, 64, 256, 1024, 4096} and len(rows) == 6 * len(ways)
    for gpus in (8, 64):
        assert rows[gpus, "DDP, torch fused"][2:] == [8.0, 8.0]
        assert rows[gpus, "FSDP2, altgrad"][2] == pytest.approx(8 / gpus, abs=0.06)
    step, exposed, *_ = rows[64, "FSDP2, altgrad"]
    assert step < exposed and rows[64, "DDP, torch fused"][0] > step
