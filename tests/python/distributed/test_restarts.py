"""torchrun starts three ranks, one machine is lost, and the two that are left go on from the last checkpoint."""

import json
import pathlib
import subprocess
import sys

import killed
import pytest
import torch.distributed as dist

HERE = pathlib.Path(__file__).parent
# Soon after an agent has ended the others know, and begin without it.
SOON = "is_host=0,last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=5"


@pytest.fixture
def agents(tmp_path):
    """Three agents of one rank each, as of three machines, which meet at a store of this process."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    words = ["--nnodes=2:3", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=altgrad",
             f"--rdzv-endpoint=localhost:{store.port}", f"--rdzv-conf={SOON}", "--local-addr=localhost"]
    made = [subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *words, HERE / "restarted.py", tmp_path],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
    try:
        yield made
    finally:
        for agent in made:
            agent.kill()
            agent.wait()


def test_two_ranks_go_on_where_three_ended(agents, tmp_path):
    expected = killed.whole()  # compiles, too
    said = [agent.communicate(timeout=10 * killed.CALM)[0] for agent in agents]
    assert sorted([agent.returncode for agent in agents]) == [-9, 0, 0], said
    for rank in range(2):
        first, world, numbers = json.loads((tmp_path / f"{rank}.json").read_text())
        assert (first, world) == (3, 2)  # the step in which rank 1 died is made again
        assert numbers == expected
    assert not (tmp_path / "2.json").exists()
