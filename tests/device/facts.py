"""What the card does, before anything of altgrad runs: copies, launches, latencies, and how long the driver compiles.

The names of `machine` are those of tests/gpumodel/machines.json, for `tools/gpu_model.py --machines`.
"""

import ctypes
import os
import statistics
import time

import torch

import gpu as gpus

PTX = gpus.ROOT / "build" / "device" / "facts"
LINE = 128  # bytes that a chase steps over: no two of its loads share a line
HEAD = ".version 7.8\n.target sm_{target}\n.address_size 64\n"
EMPTY = ".visible .entry empty()\n{\nret;\n}\n"
# The second form of `empty` lets the next one in and waits, as our kernels do from sm_90 on.
OVERLAPPING = (".visible .entry overlapping()\n{\ngriddepcontrol.wait;\n"
               "griddepcontrol.launch_dependents;\nret;\n}\n")
CHASE = """.visible .entry chase(.param .u64 first, .param .u64 last, .param .u32 steps)
{
.reg .pred %p0;
.reg .b32 %r0;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [first];
ld.param.u64 %rd1, [last];
ld.param.u32 %r0, [steps];
next:
ld.global.u64 %rd0, [%rd0];
sub.u32 %r0, %r0, 1;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra next;
st.global.u64 [%rd1], %rd0;
ret;
}
"""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute; 6 is programmatic stream serialisation."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


class Driver:
    """cu("cuInit", 0): functions as the driver of CUDA 12 has them; an error raises."""

    def __init__(self):
        library = ctypes.CDLL("libcuda.so.1")
        self.find, self.known = library.cuGetProcAddress_v2, {}
        self.find.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]

    def __call__(self, name, *arguments):
        if name not in self.known:
            function, why = ctypes.c_void_p(), ctypes.c_int()
            self.find(name.encode(), ctypes.byref(function), 12000, 0, ctypes.byref(why))
            if not function.value:
                raise RuntimeError(f"this driver has no {name}")
            self.known[name] = function.value
        code = ctypes.CFUNCTYPE(ctypes.c_int, *map(type, arguments))(self.known[name])(*arguments)
        if code:
            raise RuntimeError(f"{name}: CUDA error {code}")

    def pointer(self, name, *arguments):
        """The handle that a function makes in its first parameter."""
        made = ctypes.c_void_p()
        self(name, ctypes.c_void_p(ctypes.addressof(made)), *arguments)
        return made


class Card:
    """A stream of the driver's own, and the kernels above."""

    def __init__(self, gpu):
        self.gpu, self.cu = gpu, Driver()
        self.one = torch.zeros(1).to(gpu.device)  # makes the context
        gpu.synchronize()
        self.stream = self.cu.pointer("cuStreamCreate", ctypes.c_uint(1))
        # On a GPU times are differences of many; here the code is tried.
        self.count, self.rounds = (200, 9) if gpu.real else (4, 2)
        self.overlaps = gpu.capability() >= 90
        text = HEAD.format(target=90 if self.overlaps else 80) + EMPTY + CHASE + OVERLAPPING * self.overlaps
        module = self.load(text.encode())
        names = ["empty", "chase"] + ["overlapping"] * self.overlaps
        self.kernels = {n: self.cu.pointer("cuModuleGetFunction", module, ctypes.c_char_p(n.encode())) for n in names}

    def load(self, image):
        return self.cu.pointer("cuModuleLoadDataEx", ctypes.c_char_p(image), ctypes.c_uint(0), ctypes.c_void_p(),
                               ctypes.c_void_p())

    def launch(self, name, *values, dependent=False):
        attribute = Attribute(6, 0, 1)
        config = Config((1, 1, 1), (1, 1, 1), 0, self.stream.value, ctypes.addressof(attribute), int(dependent))
        held = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        self.cu("cuLaunchKernelEx", ctypes.c_void_p(ctypes.addressof(config)), self.kernels[name],
                ctypes.c_void_p(ctypes.addressof(held)), ctypes.c_void_p())

    def ms(self, body, ahead=5.0, flushed=False):
        """Of the device alone: the CPU has enqueued all of it before it begins. `flushed`: the caches have none of it."""
        samples = []
        with self.gpu.on_raw(self.stream.value):
            for _ in range(self.rounds):
                if flushed:
                    self.gpu.flush()
                samples.append(self.gpu.timed(body, ahead)[0])
        return statistics.median(samples)

    def graph(self, body):
        self.cu("cuStreamBeginCapture", self.stream, ctypes.c_int(2))  # relaxed
        body()
        graph = ctypes.c_void_p()
        self.cu("cuStreamEndCapture", self.stream, ctypes.c_void_p(ctypes.addressof(graph)))
        ready = self.cu.pointer("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        return lambda: self.cu("cuGraphLaunch", ready, self.stream)


def copies(card):
    """TB/s of a large copy, reads and writes together."""
    size = 1 << 30 if card.gpu.real else 1 << 12
    source, target = (torch.empty(size, dtype=torch.uint8, device=card.gpu.device) for _ in range(2))
    return {"copy_tb_s": 2 * size / card.ms(lambda: target.copy_(source), 1.0) / 1e9}


def launches(card):
    """µs before the first launch and between two: in turn, overlapped, in a graph."""
    def many(count, name="empty", dependent=False):
        return lambda: [card.launch(name, dependent=dependent and number > 0) for number in range(count)]
    between = lambda body: (card.ms(body(card.count)) - card.ms(body(1))) * 1e3 / (card.count - 1)
    found = {"nothing_us": card.ms(lambda: None) * 1e3, "launch_us": between(many)}
    found["first_launch_us"] = card.ms(many(1)) * 1e3 - found["nothing_us"]
    if card.overlaps:
        found["overlapped_launch_us"] = between(lambda count: many(count, "overlapping", True))
    graphs = {count: card.graph(many(count)) for count in (1, card.count)}
    found["graph_launch_us"] = between(lambda count: graphs[count])
    return found


def chase(card, size, steps, flushed):
    """ns of a load that waits for the one before it, on a random way through `size` bytes."""
    lines = size // LINE
    memory = torch.zeros(size // 8, dtype=torch.int64).to(card.gpu.device)
    order = torch.randperm(lines)
    places = torch.zeros(size // 8, dtype=torch.int64)
    places[order * (LINE // 8)] = memory.data_ptr() + order.roll(-1) * LINE
    memory.copy_(places)
    last = torch.zeros(1, dtype=torch.int64).to(card.gpu.device)
    card.gpu.synchronize()
    first, to = (ctypes.c_uint64(t.data_ptr()) for t in (memory, last))
    took = lambda count: card.ms(lambda: card.launch("chase", first, to, ctypes.c_uint32(count)), 1.0, flushed)
    return (took(2 * steps) - took(steps)) * 1e6 / steps


def latencies(card):
    big, small, steps = (1 << 29, 1 << 23, 1 << 14) if card.gpu.real else (1 << 14, 1 << 12, 8)
    # A way is short enough for the large cache, and too long for a processor's own.
    return {"memory_ns": chase(card, big, steps, True), "cache_ns": chase(card, small, steps, False)}


def compiling(card):
    """ms that the driver takes for a step of AdamW with a clip: from PTX, and from the cubin that it made."""
    path = PTX / f"adamw-clip.sm_{90 if card.overlaps else 80}.ptx"
    if not path.exists():
        return {"jit": f"no {path.name}: packed where the compiler is"}
    text = path.read_bytes() + b"\0"
    start = time.perf_counter()
    none, linking = ctypes.c_void_p(), ctypes.c_void_p()
    card.cu("cuLinkCreate", ctypes.c_uint(0), none, none, ctypes.c_void_p(ctypes.addressof(linking)))
    card.cu("cuLinkAddData", linking, ctypes.c_int(1), ctypes.c_char_p(text), ctypes.c_size_t(len(text)),
            ctypes.c_char_p(b"adamw"), ctypes.c_uint(0), none, none)
    cubin, size = ctypes.c_void_p(), ctypes.c_size_t()
    card.cu("cuLinkComplete", linking, ctypes.c_void_p(ctypes.addressof(cubin)), ctypes.c_void_p(ctypes.addressof(size)))
    made = time.perf_counter()
    card.load(ctypes.string_at(cubin.value, size.value))
    loaded = time.perf_counter()
    card.cu("cuLinkDestroy", linking)
    return {"jit_ms": (made - start) * 1e3, "load_cubin_ms": (loaded - made) * 1e3}


def run(device, keep):
    """{name: figure}; `keep` is called after each group."""
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    card, found = Card(gpus.find(device)), {}
    for group in (copies, launches, latencies, compiling):
        found |= group(card)
        keep(found)
        print("   ", ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in found.items()), flush=True)
    clock = card.gpu.clock_ghz()
    found["machine"] = {k: round(found[k], 3) for k in ("copy_tb_s", "launch_us", "first_launch_us")}
    if clock:
        found["machine"] |= {"clock_ghz": clock} | {
            to: round(found[of] * clock) for of, to in (("memory_ns", "memory_cycles"), ("cache_ns", "cache_cycles"))}
    keep(found)
    return found
