"""Stock optimizers step without any compiler: their bundles were built with the library."""

import ctypes
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

import pytest
from stock import BUNDLES, LIBRARY, needs_bundles

from altgrad import _library

# The test driver takes no real cubin; what it links of the PTX is kept instead.
LINKS = "ALTGRAD_STANDS_FOR_CUDA" in os.environ
pytestmark = needs_bundles

CLASSES = [("AdamW", {}), ("AdamW", dict(amsgrad=True)), ("Adam", {}), ("Adam", dict(amsgrad=True)),
           ("SGD", {}), ("SGD", dict(momentum=0.9)), ("SGD", dict(momentum=0.9, nesterov=True)),
           ("Adagrad", {}), ("RMSprop", {}), ("RMSprop", dict(centered=True)),
           ("RMSprop", dict(momentum=0.9)), ("Lion", {}), ("LAMB", {}), ("ADOPT", {}),
           ("AdEMAMix", {})]
DTYPES = [["float32"], ["bfloat16"], ["float16"]]
ALL = [[name, kwargs, dtypes] for name, kwargs in CLASSES for dtypes in DTYPES]
ALL += [["AdamW", {}, ["float32", "bfloat16"]], ["AdamW", {}, ["bfloat16", "float32"]]]

# Makes two steps of each case; prints (case, words) of what is refused.
STEP = """
import json, sys
import torch, altgrad
bad = []
for case in json.load(sys.stdin):
    name, kwargs, dtypes, *sizes = case
    modes = ({}, dict(max_grad_norm=1.0), dict(fused_amp=True), dict(fused_amp=True, max_grad_norm=1.0))
    # Training in bfloat16 needs no loss scale: only AdamW's bundles have one.
    for more in modes[:2] if sizes or (name, kwargs) != ("AdamW", {}) and dtypes == ["bfloat16"] else modes:
        params = [torch.nn.Parameter(torch.zeros(size, dtype=getattr(torch, t)))
                  for t in dtypes for size in sizes or [5]]
        optimizer = getattr(altgrad.optim, name)(params, **kwargs, **more)
        if "fused_amp" in more:
            optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(0.0)
        try:
            for _ in range(2):
                for p in params:
                    p.grad = torch.ones_like(p)
                optimizer.step()
            assert all((p != 0).all() for p in params)
        except altgrad.Error as error:
            bad.append([case, str(error)])
json.dump(bad, sys.stdout)
"""


def refused(cases, cache, **environment):
    """What a fresh process without a compiler refuses."""
    environment = {**os.environ, "ALTGRAD_OPT": "/nowhere/altgrad-opt",
                   "ALTGRAD_CACHE_DIR": str(cache),
                   "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run([sys.executable, "-c", STEP], env=environment, input=json.dumps(cases),
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def test_every_stock_class_steps_without_a_compiler(tmp_path):
    assert refused(ALL, tmp_path / "cache") == []
    assert LINKS or not list(tmp_path.glob("cache/*")), "nothing was compiled"


@pytest.mark.parametrize("name", ["AdamW4bit", "AdamW8bit", "Lion8bit"])
def test_classes_with_narrow_states_step_without_a_compiler(name, tmp_path):
    cases = [[name, {}, [dtype], *sizes] for dtype in ("float32", "bfloat16")
             for sizes in ([4096], [5], [4096, 5])]
    assert refused(cases, tmp_path / "cache") == []
    assert LINKS or not list(tmp_path.glob("cache/*")), "nothing was compiled"


GRIDS = '''
import torch, altgrad
f32, bf16, e4m3, e5m2 = torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
for dtype, grads, grid in ((f32, f32, e4m3), (bf16, bf16, e4m3), (e4m3, f32, e4m3), (e4m3, bf16, e4m3),
                           (f32, f32, e5m2), (e5m2, f32, e5m2)):
    p = torch.nn.Parameter(torch.ones(5).to(dtype))
    optimizer = altgrad.optim.GridOptim([p], fp8_dtype=grid, seed=1)
    p.grad_dtype = grads
    p.grad = torch.ones(5, dtype=grads)
    for _ in range(2):
        flips, updates = optimizer.step()
    assert int(flips) == int(updates) == 5, (dtype, grads)
'''


def test_grid_optim_steps_without_a_compiler(tmp_path):
    environment = {**os.environ, "ALTGRAD_OPT": "/nowhere/altgrad-opt", "ALTGRAD_CACHE_DIR": str(tmp_path / "cache"),
                   "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", GRIDS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert LINKS or not list(tmp_path.glob("cache/*")), "nothing was compiled"


@pytest.mark.parametrize("options", ["", "\n--clip", "\n--scaler", "\n--clip\n--scaler"])
@pytest.mark.parametrize("line", ["rule=adamw param={0} grad={0} states=param step=f32",
                                  "rule=lamb param={0} grad={0} states=param step=f32"])
def test_gpus_are_served_too(line, options, tmp_path, monkeypatch):
    monkeypatch.setenv("ALTGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ALTGRAD_OPT", "/nowhere/altgrad-opt")
    native = _library.library()
    for storage in ("f32", "f16") if "scaler" in options and "lamb" in line else ("f32", "bf16", "f16"):
        request = f"--set={line.format(storage)}\n--target=sm_80,sm_90{options}"
        handle = ctypes.c_void_p()
        native.altgrad_compile(None, 0, request.encode(), None, ctypes.byref(handle))
        manifest = json.loads(native.altgrad_manifest(handle))
        native.altgrad_bundle_free(handle)
        assert manifest["ptx"] == ["sm_80", "sm_90"] and manifest["host"] == []


@pytest.mark.parametrize("request_", [
    "--clip\n--target=x86-64-v3,x86-64-v4\n--set=rule=adamw step=f32",
    "--set=rule=adamw step=f32 states=param grad=f32 param=f32\n--target=x86-64-v3,x86-64-v4\n--clip"])
def test_a_request_is_found_however_it_is_written(request_, tmp_path, monkeypatch):
    monkeypatch.setenv("ALTGRAD_CACHE_DIR", str(tmp_path / "cache"))
    native, texts = _library.library(), []
    compiler = os.environ.get("ALTGRAD_OPT") or _library.own_compiler()
    usual = "--set=rule=adamw param=f32 grad=f32 states=param step=f32\n--target=x86-64-v3,x86-64-v4\n--clip"
    for words in (usual, request_):
        monkeypatch.setenv("ALTGRAD_OPT", "/nowhere/altgrad-opt")
        handle = ctypes.c_void_p()
        native.altgrad_compile(None, 0, words.encode(), None, ctypes.byref(handle))
        native.altgrad_bundle_free(handle)
        flags = [word for word in words.split("\n") if not word.startswith("--target")]
        done = subprocess.run([str(compiler), *flags, "--print-step"], capture_output=True, text=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1] and "commit" in texts[0], "the compiler takes them for one, too"


def test_cubins_are_in_the_most_used_bundles_or_in_none():
    texts = [path.read_bytes() for path in BUNDLES.glob("*.bundle")]
    gpus = [text for text in texts if b"\0altgrad_ptx_sm_80\0" in text]
    assert 2 * len(gpus) == len(texts)
    for target in ("sm_80", "sm_90"):
        with_cubins = sum(f"\0altgrad_cubin_{target}\0".encode() in text for text in texts)
        assert with_cubins in (0, 12), "AdamW in f32 and bf16, six ways each"


def test_what_is_not_built_asks_for_the_compiler(tmp_path):
    words = refused([["LAMB", dict(use_nvlamb=True), ["float32"]]], tmp_path)
    assert len(words) == 4 and all("/nowhere/altgrad-opt" in text for _, text in words)


@pytest.fixture
def installation(tmp_path):
    """A copy of the library, its templates and its bundles."""
    root = tmp_path / "altgrad"
    (root / "lib").mkdir(parents=True)
    for library in [LIBRARY, *LIBRARY.parent.glob("libaltgrad_core.so")]:
        shutil.copy(library, root / "lib")
    shutil.copytree(BUNDLES, root / "bundles")
    shutil.copytree(_library.find_templates(), root / "templates")
    return root


def test_an_edited_template_is_compiled(installation, tmp_path):
    cases = [["Lion", {}, ["float32"]], ["AdamW", {}, ["float32"]]]
    library = dict(ALTGRAD_LIBRARY=str(installation / "lib" / "libaltgrad.so"))
    assert refused(cases, tmp_path, **library) == []
    with open(installation / "templates" / "lion.mlir", "a") as template:
        template.write("// changed\n")
    assert [case[0] for case, _ in refused(cases, tmp_path, **library)] == ["Lion"] * 4


def test_bundles_of_an_older_altgrad_are_passed_over_in_words(installation, tmp_path):
    """They have no digest of their own at their end."""
    for path in (installation / "bundles").glob("*.bundle"):
        whole = path.read_bytes()
        magic, version, size, keys = struct.unpack("<16s3Q", whole[-72:-32])
        entry = whole[:size - 48] + whole[size:size + keys] + struct.pack("<16s3Q", magic, version, size - 48, keys)
        path.write_bytes(entry + hashlib.sha256(entry).digest())
    script = ("import torch, altgrad; p = torch.nn.Parameter(torch.ones(5)); o = altgrad.optim.AdamW([p]); "
              "p.grad = torch.ones(5); o.step()")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ALTGRAD_CACHE_DIR": str(tmp_path / "cache"),
                   "ALTGRAD_LIBRARY": str(installation / "lib" / "libaltgrad.so"),
                   "ALTGRAD_OPT": os.environ.get("ALTGRAD_OPT") or str(_library.find_compiler())}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "prebuilt bundle does not end in a digest" in done.stderr and "it is passed over" in done.stderr


def test_a_prebuilt_step_is_the_compiled_one(installation, tmp_path):
    """Without its templates the same library compiles; the manifest and every bit are the same."""
    script = """
import ctypes, sys
import torch, altgrad
from altgrad import _bundle, _library
made, init = [], _bundle.Bundle.__init__
_bundle.Bundle.__init__ = lambda self, handle: (made.append(self), init(self, handle))[1]
torch.manual_seed(0)
p = torch.nn.Parameter(torch.randn(5000))
optimizer = altgrad.optim.AdamW([p], max_grad_norm=0.5)
for _ in range(3):
    p.grad = torch.randn(5000)
    optimizer.step()
bundle, = made
print(_library.library().altgrad_manifest(bundle.handle).decode(), p.tolist())
"""
    def run(**environment):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                 "ALTGRAD_CACHE_DIR": str(tmp_path / "cache"),
                 "ALTGRAD_LIBRARY": str(installation / "lib" / "libaltgrad.so"), **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    prebuilt = run()
    assert LINKS or not (tmp_path / "cache").exists()
    shutil.rmtree(installation / "bundles")
    assert run(ALTGRAD_OPT=os.environ.get("ALTGRAD_OPT") or str(_library.find_compiler())) == prebuilt
    # The bundle, and the cubin that the test driver has linked of its PTX.
    assert len(list((tmp_path / "cache").iterdir())) == 1 + LINKS
