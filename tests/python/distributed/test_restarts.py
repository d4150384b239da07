"""torchrun starts ranks anew where one is lost, all or those that are left, which go on from the last checkpoint."""

import json
import os
import pathlib
import subprocess
import sys

import killed
import pytest
import torch.distributed as dist

HERE = pathlib.Path(__file__).parent
# Soon after an agent has ended the others know, and begin without it.
SOON = "is_host=0,last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=5"


def torchrun(*words):
    # A store that agents share keeps the addresses of the ranks before, to which new ones may connect, and wait.
    return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *words], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.STDOUT, env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})


def check(folder, world):
    """That all ranks of a world made the step again in which rank 1 died, and have the bits of an undisturbed run."""
    expected = killed.whole()
    for rank in range(world):
        assert json.loads((folder / f"{rank}.json").read_text()) == [3, world, expected]
    assert not (folder / f"{world}.json").exists()


@pytest.fixture
def agents(tmp_path):
    """Three agents of one rank each, as of three machines, which meet at a store of this process."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    words = ["--nnodes=2:3", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=altgrad",
             f"--rdzv-endpoint=localhost:{store.port}", f"--rdzv-conf={SOON}", "--local-addr=localhost"]
    made = [torchrun(*words, HERE / "restarted.py", tmp_path) for _ in range(3)]
    try:
        yield made
    finally:
        for agent in made:
            agent.kill()
            agent.wait()


def test_two_ranks_go_on_where_three_ended(agents, tmp_path):
    said = [agent.communicate(timeout=10 * killed.CALM)[0] for agent in agents]
    assert sorted([agent.returncode for agent in agents]) == [-9, 0, 0], said
    check(tmp_path, 2)


def test_two_ranks_go_on_as_two(tmp_path):
    agent = torchrun("--standalone", "--nproc-per-node=2", "--max-restarts=1", HERE / "restarted.py", tmp_path, "alone")
    said = agent.communicate(timeout=10 * killed.CALM)[0]
    assert agent.returncode == 0, said
    check(tmp_path, 2)
