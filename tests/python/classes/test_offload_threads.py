"""Which cores and threads steps on the host have: a rank's share of those that several ranks of a host have."""

import os

import pytest
import torch

from altgrad._binding.host_threads import Host, HostThreads, parse_cpus, share_of


class Machine(Host):
    """Two sockets of four cores with two CPUs each; GPUs 0 and 1 near the first one, 2 and 3 near the second."""

    def __init__(self, rank=0, ranks=1, allowed=range(16), container=range(16), **environment):
        super().__init__("/nowhere", dict({"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)} if ranks > 1 else {}, **environment))
        self._allowed, self._container = set(allowed), set(container)

    def allowed(self):
        return self._allowed

    def container(self):
        return self._container

    def core(self, cpu):
        return cpu % 8 // 4, cpu % 8

    def nodes_of_devices(self):
        return [0, 0, 1, 1]


def test_ranks_share_the_cores_in_their_order():
    shares = [share_of(Machine(rank, 4)) for rank in range(4)]
    assert shares == [[[0, 8], [1, 9]], [[2, 10], [3, 11]], [[4, 12], [5, 13]], [[6, 14], [7, 15]]]
    assert share_of(Machine()) == sum(shares, [])
    assert [len(share_of(Machine(rank, 3))) for rank in range(3)] == [2, 3, 3]
    assert share_of(Machine(9, 10)) == [[7, 15]] and share_of(Machine(0, 10)) == [[0, 8]]


def test_shares_are_near_the_device():
    assert [share_of(Machine(rank, 4), rank) for rank in range(4)] == [share_of(Machine(rank, 4)) for rank in range(4)]
    assert share_of(Machine(), 2) == [[4, 12], [5, 13], [6, 14], [7, 15]]
    assert share_of(Machine(1, 2), 1) == [[2, 10], [3, 11]]  # of the first socket, where both have their GPUs
    assert share_of(Machine(), 7) == share_of(Machine())  # which nobody knows


def test_a_launcher_that_binds_ranks_has_shared_out():
    assert share_of(Machine(1, 4, allowed=[2, 3])) == [[2], [3]]
    shared = [share_of(Machine(rank, 2, allowed=[2, 3], container=[2, 3])) for rank in range(2)]
    assert shared == [[[2]], [[3]]]


@pytest.mark.parametrize("words", [dict(LOCAL_RANK="3", LOCAL_WORLD_SIZE="4"), dict(SLURM_LOCALID="3", SLURM_NTASKS_PER_NODE="4"),
                                   dict(OMPI_COMM_WORLD_LOCAL_RANK="3", OMPI_COMM_WORLD_LOCAL_SIZE="4")])
def test_launchers_say_which_rank_it_is(words):
    assert Machine(**words).local_rank() == (3, 4)
    assert Machine(LOCAL_RANK="x", LOCAL_WORLD_SIZE="").local_rank() == (0, 1)


def test_threads_are_the_share_unless_somebody_has_chosen():
    assert HostThreads(False, host=Machine()).count is None
    assert HostThreads(False, host=Machine(0, 4, OMP_NUM_THREADS="1")).count == 2  # as torchrun says by itself
    assert HostThreads(False, host=Machine(0, 4, OMP_NUM_THREADS="3")).count == 3
    assert HostThreads(True, 2, host=Machine()).cpus == {4, 5, 6, 7, 12, 13, 14, 15}


def masks_of_tasks():
    """{a thread of this process: its CPUs}"""
    lines = {task: open(f"/proc/self/task/{task}/status").read() for task in os.listdir("/proc/self/task")}
    return {int(task): parse_cpus(text.split("Cpus_allowed_list:")[1].split()[0]) for task, text in lines.items()}


def test_bound_threads_run_there_and_the_caller_goes_back():
    """On this machine, as the last of so many ranks as it has CPUs."""
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        pytest.skip("one CPU cannot be shared")

    class Here(Host):
        def container(self):
            return set(every)

        def core(self, cpu):
            return 0, cpu
    last = Here(environment={"LOCAL_RANK": str(len(every) - 1), "LOCAL_WORLD_SIZE": str(len(every)), "OMP_NUM_THREADS": "2"})
    threads, before = HostThreads(True, host=last), torch.get_num_threads()
    with threads.here():
        assert os.sched_getaffinity(0) == {every[-1]} and torch.get_num_threads() == 2
        torch.ones(1 << 20).add_(1)
        bound = [task for task, mask in masks_of_tasks().items() if mask == {every[-1]}]
        assert len(bound) >= 2
    assert os.sched_getaffinity(0) == set(every) and torch.get_num_threads() == before
