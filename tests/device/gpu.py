"""The GPU of the checks, or what stands for it where the checks themselves are tried: streams, graphs, waiting, time."""

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import subprocess
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = "privateuseone"
FIELDS = ("name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,power.limit,"
          "temperature.gpu,ecc.mode.current,mig.mode.current,pcie.link.gen.current")


def patience(device):
    """Seconds after which a process of its own is given up; the test driver's machine may be a busy one."""
    return 120 if device.startswith("cuda") else 900


class Skipped(Exception):
    """The check does not apply here, with the reason."""


def find(device):
    """The Cuda or the StandIn that `device` names; raises Skipped for the host's own levels."""
    if device.startswith("cuda"):
        return Cuda(device)
    if device.startswith(STAND_IN):
        return StandIn(device)
    raise Skipped("host")


class Cuda:
    """A GPU, by torch."""

    real = True
    rubbish = None

    def __init__(self, device):
        self.device = torch.device(device if ":" in device else device + ":0")
        self.synchronize = torch.cuda.synchronize

    def others(self):
        return [torch.device("cuda", i) for i in range(torch.cuda.device_count()) if i != self.device.index]

    @contextlib.contextmanager
    def no_waiting(self):
        """Whatever makes torch wait for the device raises."""
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)

    def capability(self):
        major, minor = torch.cuda.get_device_capability(self.device)
        return 10 * major + minor

    def overlaps(self):
        return self.capability() >= 90

    def stream(self):
        return torch.cuda.Stream(self.device)

    def on_raw(self, handle):
        """The driver's own stream of that handle is the current one."""
        return torch.cuda.stream(torch.cuda.ExternalStream(handle, self.device))

    def clock_ghz(self):
        """Of the processors, now; None where nobody says."""
        words = str(self.state().get("clocks.sm", "")).split()
        return float(words[0]) / 1e3 if words and words[0].isdigit() else None

    def flush(self):
        """Drives what a sample is about to read out of the card's caches, on the current stream."""
        if self.rubbish is None:
            size = 4 * torch.cuda.get_device_properties(self.device).L2_cache_size
            self.rubbish = torch.empty(max(size, 1 << 27), dtype=torch.uint8, device=self.device)
        self.rubbish.zero_()

    def on(self, stream):
        return torch.cuda.stream(stream)

    def after(self, later, earlier):
        """What `later` is given from now on waits for what `earlier` has."""
        (later or torch.cuda.current_stream(self.device)).wait_stream(
            earlier or torch.cuda.current_stream(self.device))

    def sleep(self, ms):
        """Keeps the current stream busy."""
        torch.cuda._sleep(int(ms * 2e6))

    def busy(self):
        """Something to be called: whether the current stream still has something to do."""
        mark = torch.cuda.Event()
        mark.record()
        return lambda: not mark.query()

    def graph(self, body):
        """Captures one call of `body`; returns what replays it."""
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            body()

        def replay():
            captured.replay()
        replay.kept = body  # what the graph reads belongs to it
        return replay

    step_graph = graph

    @contextlib.contextmanager
    def filled(self, leave):
        """All of the card's memory but `leave` bytes is taken; gives what is left in fact."""
        taken, size = [], 1 << 36
        while size >= 1 << 16:
            try:
                if self.free() < size + leave:
                    raise torch.OutOfMemoryError
                taken.append(torch.empty(size, dtype=torch.uint8, device=self.device))
            except torch.OutOfMemoryError:
                size //= 2
        try:
            yield self.free()
        finally:
            taken.clear()
            self.free()

    def timed(self, body, ahead=0.0):
        """(ms on the device, ms of the CPU, whether the device had to wait for nobody); `ahead` ms of sleep come first."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if ahead:
            self.sleep(ahead)
        start = time.perf_counter()
        first.record()
        body()
        last.record()
        cpu = (time.perf_counter() - start) * 1e3
        pure = not first.query()
        last.synchronize()
        return first.elapsed_time(last), cpu, pure

    def launches(self, body):
        """[(kernel or copy, µs)] of one call."""
        from torch.profiler import ProfilerActivity, profile
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            body()
            torch.cuda.synchronize()
        return [(e.name, e.device_time_total) for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]

    def free(self):
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.device)[0]

    def state(self):
        """What a model of the device needs: its name, sizes, clocks."""
        p = torch.cuda.get_device_properties(self.device)
        found = {"name": p.name, "processors": p.multi_processor_count, "memory_bytes": p.total_memory,
                 "l2_bytes": p.L2_cache_size, "capability": f"{p.major}{p.minor}", "clock_khz": p.clock_rate,
                 "memory_clock_khz": p.memory_clock_rate, "memory_bits": p.memory_bus_width,
                 "registers": p.regs_per_multiprocessor, "torch": torch.__version__, "cuda": torch.version.cuda}
        try:
            line = subprocess.run(["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader",
                                   f"--id={self.device.index}"], capture_output=True, text=True, timeout=20).stdout
            found |= dict(zip(FIELDS.split(","), map(str.strip, line.split(","))))
        except (OSError, subprocess.TimeoutExpired) as error:
            found["nvidia-smi"] = str(error)
        return found


class StandIn:
    """torch's device of tests/devices on the test driver: what the checks do is tried, not what a GPU does.

    Its graphs are calls, and its streams have nothing to do: the driver's own are in tests/unit.
    """

    real = False

    def __init__(self, device):
        self.device = torch.device(device if ":" in device else device + ":0")
        os.environ["ALTGRAD_STANDS_FOR_CUDA"] = STAND_IN  # for the tests of LibTorch
        where = ROOT / "tests" / "devices" / "conftest.py"
        if not hasattr(torch, STAND_IN):
            torch.utils.rename_privateuse1_backend(STAND_IN)  # backward asks for the streams of what has a name
            spec = importlib.util.spec_from_file_location("altgrad_test_device", where)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.fakecuda_calls.restype = self.driver.fakecuda_get.restype = ctypes.c_int64

    def synchronize(self):
        self.driver.fakecuda_drain()

    def others(self):
        return [torch.device(STAND_IN, 1 - self.device.index)]

    @contextlib.contextmanager
    def no_waiting(self):
        def refuse(*_):
            raise AssertionError("a tensor of the device was read")
        names = ("item", "__float__", "__bool__", "__int__", "tolist", "cpu", "numpy")
        kept = {name: getattr(torch.Tensor, name) for name in names}
        try:
            for name in names:
                setattr(torch.Tensor, name, refuse)
            yield
        finally:
            for name in names:
                setattr(torch.Tensor, name, kept[name])

    def stream(self):
        return None

    def on_raw(self, handle):
        return contextlib.nullcontext()

    def clock_ghz(self):
        return None

    def flush(self):
        pass

    def capability(self):
        return self.driver.fakecuda_get(b"capability")

    def on(self, stream):
        return contextlib.nullcontext()

    def overlaps(self):
        return True

    def after(self, later, earlier):
        pass

    def sleep(self, ms):
        pass

    def busy(self):
        return lambda: True

    def graph(self, body):
        return body

    def step_graph(self, step):
        """A graph of the driver's, of what altgrad launches: operators of torch are done when they are called."""
        from facts import Driver
        cu, use = Driver(), torch.ops.altgrad_test_device.use_stream
        before = use(self.device.index, -1)
        stream = ctypes.c_void_p(use(self.device.index, before))
        use(self.device.index, stream.value)
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        cu("cuStreamBeginCapture", stream, ctypes.c_int(0))
        step()
        cu("cuStreamEndCapture", stream, ctypes.c_void_p(ctypes.addressof(graph)))
        use(self.device.index, before)
        cu("cuGraphInstantiateWithFlags", ctypes.c_void_p(ctypes.addressof(ready)), graph, ctypes.c_uint64(0))
        cu("cuGraphDestroy", graph)
        return lambda: cu("cuGraphLaunch", ready, stream)

    @contextlib.contextmanager
    def filled(self, leave):
        before = self.driver.fakecuda_get(b"memory")
        self.driver.fakecuda_set(b"memory", ctypes.c_int64(leave))
        try:
            yield leave
        finally:
            self.driver.fakecuda_set(b"memory", ctypes.c_int64(before))

    def timed(self, body, ahead=0.0):
        start = time.perf_counter()
        body()
        ms = (time.perf_counter() - start) * 1e3
        return ms, ms, True

    def launches(self, body):
        names = b"cuLaunchKernel", b"cuLaunchKernelEx", b"cuMemcpyHtoDAsync"
        self.driver.fakecuda_clear_calls()
        body()
        return [(name.decode(), None) for name in names for _ in range(self.driver.fakecuda_calls(name))]

    def free(self):
        return 1 << 24

    def state(self):
        return {"name": "the test driver", "torch": torch.__version__}
