"""The threads of steps on the host for a device: this rank's share of the cores, which others on the host share, too."""

import ctypes
import os
from contextlib import contextmanager
from pathlib import Path

import torch

from .._core import torch_parallel_for

# Where launchers say which process of a host this is, and of how many.
_LOCAL = (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
          ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"))


class Host:
    """What is asked of this machine."""

    def __init__(self, root="/sys", environment=None):
        self._root, self._environment = Path(root), os.environ if environment is None else environment

    def allowed(self):
        """The CPUs of this thread."""
        return os.sched_getaffinity(0)

    def container(self):
        """The CPUs that every process here may use."""
        for place in ("fs/cgroup/cpuset.cpus.effective", "devices/system/cpu/online"):
            if text := self._read(place):
                return parse_cpus(text)
        return self.allowed()

    def core(self, cpu):
        """(NUMA node, first CPU of the same core), by which CPUs are sorted."""
        siblings = self._read(f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return self._node(cpu), min(parse_cpus(siblings)) if siblings else cpu

    def _node(self, cpu):
        return next((int(node.name[4:]) for node in (self._root / f"devices/system/cpu/cpu{cpu}").glob("node[0-9]*")), 0)

    def nodes_of_devices(self):
        """The NUMA node of each GPU of this process, in their order; -1 where nobody knows it."""
        if not torch.cuda.is_available():
            return []
        every = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        places = [f"{of.pci_domain_id:04x}:{of.pci_bus_id:02x}:{of.pci_device_id:02x}.0" for of in every]
        return [int(self._read(f"bus/pci/devices/{place}/numa_node") or -1) for place in places]

    def local_rank(self):
        """(this process, how many there are) of this host, as the launcher says it; (0, 1) without one."""
        for rank, ranks in _LOCAL:
            if (given := [self._environment.get(name, "") for name in (rank, ranks)]) and all(map(str.isdecimal, given)):
                return int(given[0]), max(1, int(given[1]))
        return 0, 1

    def threads(self):
        """The number of threads that somebody has chosen, or None: torchrun itself says 1."""
        given = self._environment.get("OMP_NUM_THREADS", "")
        return int(given) if given.isdecimal() and int(given) > 1 else None

    def _read(self, place):
        try:
            return (self._root / place).read_text().strip()
        except OSError:
            return ""


def parse_cpus(text):
    """The CPUs of a list such as 0-3,8."""
    ends = [part.split("-") for part in text.split(",") if part]
    return {cpu for of in ends for cpu in range(int(of[0]), int(of[-1]) + 1)}


def share_of(host, device=None):
    """The cores of this rank, each a list of its CPUs; of those near a GPU, its index `device`, where the host knows them.

    A launcher that gives each rank CPUs of its own has shared them out. Otherwise ranks have equal shares, in their order.
    """
    allowed, (rank, ranks) = host.allowed(), host.local_rank()
    cores = {}
    for cpu in sorted(allowed):
        cores.setdefault(host.core(cpu), []).append(cpu)
    found = sorted(cores)
    nodes = host.nodes_of_devices() if device is not None else []
    if device is not None and device < len(nodes) and (near := [core for core in found if core[0] == nodes[device]]):
        found = near
        if len(nodes) >= ranks:  # each rank has a GPU, of which those of this node share its cores
            peers = [other for other in range(ranks) if nodes[other] == nodes[device]]
            rank, ranks = (peers.index(device), len(peers)) if device in peers else (rank, ranks)
    if ranks > 1 and allowed == host.container():
        begin, end = len(found) * rank // ranks, len(found) * (rank + 1) // ranks
        found = found[begin:end] or [found[rank % len(found)]]
    return [cores[core] for core in found]


class HostThreads:
    """The threads of the steps of one optimizer on the host. `bound` has them run on the CPUs of their share alone."""

    def __init__(self, bound, device=None, host=None):
        self._host, self._bound = host or Host(), bound
        cores = share_of(self._host, device if bound else None)
        self.cpus = {cpu for of in cores for cpu in of} if bound else None
        alone = self._host.local_rank()[1] == 1 and not bound
        self.count = self._host.threads() or (None if alone else len(cores))  # None: as many as torch has
        self._told = 0

    @contextmanager
    def here(self):
        """Within it torch has these threads; afterwards the caller has what it had."""
        before, mask = torch.get_num_threads(), os.sched_getaffinity(0) if self.cpus else None
        try:
            if self.count and self.count != before:
                torch.set_num_threads(self.count)
            if self.cpus and mask != self.cpus:
                os.sched_setaffinity(0, self.cpus)
            if self.cpus and self._told != (told := torch.get_num_threads()):
                self._bind_others()
                self._told = told
            yield
        finally:
            if mask is not None and mask != self.cpus:
                os.sched_setaffinity(0, mask)
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)

    def _bind_others(self):
        """Binds the threads of torch's pool, which may have begun elsewhere, and stay here."""
        count, kind = torch.get_num_threads(), ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        body = kind(lambda begin, end, context: os.sched_setaffinity(0, self.cpus))
        run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, kind, ctypes.c_void_p)
        run(torch_parallel_for())(0, count, 1, body, None)
