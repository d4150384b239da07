"""The opcode forms' pack, and the code that runs it on a GPU, proved on a driver that the interpreter plays."""

import json
import shutil
import subprocess
import sys
import zlib

import pytest

pytest.importorskip("numpy")
import formpack  # noqa: E402
import forms  # noqa: E402

sys.path.insert(0, str(formpack.ORACLE))
from fakedriver import FakeDriver  # noqa: E402
from interpreter import Library  # noqa: E402

if not formpack.INTERPRETER.exists():
    pytest.skip("not built: tools/build.sh", allow_module_level=True)


@pytest.fixture(scope="module")
def pack():
    formpack.pack(formpack.ROOT / "build" / "device" / "forms")
    return forms.Pack(formpack.ROOT / "build" / "device" / "forms")


@pytest.fixture
def few(pack, tmp_path):
    """The twelve forms of FP8 alone: a pack that takes no time."""
    module = next(m for m in pack.modules if m["chip"] == 89)
    for end in ("ptx", "bin"):
        shutil.copy(pack.folder / f"{module['name']}.{end}.z", tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({"modules": [module], "left_out": {}, "relaxed": {}}))
    return forms.Pack(tmp_path)


def driver(**options):
    return FakeDriver(Library(str(formpack.INTERPRETER)), **options)


def test_every_form_is_there(pack):
    known = set(Library(str(formpack.INTERPRETER)).known_forms())
    packed = {launch["form"] for module in pack.modules for launch in module["launches"]}
    assert packed | pack.left_out.keys() == known and not packed & pack.left_out.keys()


def test_the_same_modules_on_the_interpreter(pack):
    """Other addresses, hundreds of kernels in a module, the driver's calls: every byte as packed."""
    counts, wrong = forms.run(pack, forms.Gpu(driver()))
    assert not wrong and not counts["skipped"] and counts["nans"] == 0
    assert counts["launches"] == sum(len(module["launches"]) for module in pack.modules)


def test_one_bit_is_found_and_named(few, capsys):
    launches = list(few.launches(few.modules[0]))
    launch, before, after = launches[5]
    case = next(n for n in range(launch["rows"]) if after[1][8 * n] not in (0x7E, 0x7F))
    fake = driver(flip=(5, forms.Arena(before).offsets[1] + 8 * case, 0x20))
    counts, wrong = forms.run(few, forms.Gpu(fake))
    value = int.from_bytes(after[1][8 * case:8 * case + 8], "little")
    width = len(before[0]) // launch["rows"]
    operand = int.from_bytes(before[0][width * case:width * case + 8], "little")
    assert len(wrong) == 1 and counts["launches"] == len(launches)
    assert wrong[0].startswith(f"{launch['form']}({operand:#x}")
    assert wrong[0].endswith(f" case {case} gave {value ^ 0x20:#x}, expected {value:#x}, bits 0x20 differ")
    assert wrong[0] in capsys.readouterr().out


def test_a_byte_outside_is_found(few):
    counts, wrong = forms.run(few, forms.Gpu(driver(flip=(0, 3, 1))))
    assert len(wrong) == 1 and "wrote outside its memory" in wrong[0]


def test_a_nan_may_have_other_bits_only_where_the_isa_says_so():
    import numpy as np
    launch = {"nan": ["f16"], "open": [2]}
    want = np.array([0x7FFF3C00, 0x3C007FFF, 5, 0x7FFF7FFF], np.uint64).view(np.uint8)
    got = np.array([0xFE003C01, 0x3C007E00, 6, 0x7C017C00], np.uint64).view(np.uint8)
    wrong = want ^ got
    assert forms.excuse(launch, want, got, wrong) == 3
    # Left: the low half of row 0, and an infinity for a NaN in the low half of row 3.
    assert wrong.view(np.uint64).tolist() == [1, 0, 0, 0x3FF]


def test_what_the_gpu_lacks_is_skipped(pack):
    counts, wrong = forms.run(pack_of(pack, lambda m: m["chip"] > 80), forms.Gpu(driver(chip=86)))
    assert not wrong and len(counts["skipped"]) == 198 and len(counts["forms"]) == 32


def pack_of(pack, chosen):
    part = forms.Pack(pack.folder)
    part.modules = [m for m in part.modules if chosen(m)]
    return part


def test_a_refused_module_is_a_failure_in_the_drivers_words(few):
    name = few.modules[0]["name"]
    text = zlib.compress(few.text(few.modules[0]).replace(b"cvt.rn", b"cvt.r9", 1))
    (few.folder / f"{name}.ptx.z").write_bytes(text)
    counts, wrong = forms.run(few, forms.Gpu(driver()))
    assert len(wrong) == 1 and wrong[0].startswith(f"{name}: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: line ")
    assert counts["launches"] == 0


def test_a_fault_names_its_form(few):
    fake = driver()
    fake.fault = 719
    with pytest.raises(forms.DriverError, match=r"^cvt\.\S+x2\S*: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED$"):
        forms.run(few, forms.Gpu(fake))


def test_ptxas_takes_every_module_for_its_least_target(pack, tmp_path):
    """And none of those above sm_80 for the target below."""
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        pytest.skip("no ptxas")
    below = {86: 80, 89: 86, 90: 89}
    for module in pack.modules:
        text, chip = pack.text(module), module["chip"]
        done = assemble(ptxas, tmp_path, text, chip)
        assert done.returncode == 0, f"{module['name']}: {done.stderr[:500]}"
        if chip in below:
            lower = text.replace(b".target sm_%d" % chip, b".target sm_%d" % below[chip])
            refused = assemble(ptxas, tmp_path, lower, below[chip]).stderr.count("; error")
            assert refused >= len(module["launches"])


def assemble(ptxas, folder, text, chip):
    (folder / "module.ptx").write_bytes(text)
    return subprocess.run([ptxas, "-O0", f"-arch=sm_{chip}", folder / "module.ptx", "-o", folder / "out"],
                          capture_output=True, text=True)
