"""What altgrad.amp says of devices: by capability, over all of them, the CPU too."""

from types import SimpleNamespace

import pytest
import torch
from machines import A100, B200, H100, L40, P100, T4, V100, Machine

from altgrad import amp
from altgrad.amp._devices import TorchDevices

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


@pytest.mark.parametrize("gpus, flags, dtype, words", [
    ([P100], "", F32, "cuda:0 (P100) has capability 6.0, and float16 is fast from 7.0"),
    ([V100], "", F16, "cuda:0 (V100) has capability 7.0, and bfloat16 needs 8.0"),
    ([T4], "", F16, "cuda:0 (T4) has capability 7.5, and bfloat16 needs 8.0"),
    ([A100], "", BF16, "cuda:0 (A100) has capability 8.0"),
    ([L40], "", BF16, "capability 8.9"),
    ([H100], "", BF16, "capability 9.0"),
    ([B200], "", BF16, "capability 10.0"),
    ([], "avx2 avx512f", F32, "cpu (Old Faithful) has neither avx512_bf16 nor amx_bf16"),
    ([], "avx512_bf16", BF16, "cpu (Old Faithful) has avx512_bf16"),
    ([], "amx_bf16 amx_tile", BF16, "cpu (Old Faithful) has amx_bf16"),
    ([], "avx512_bf16 amx_bf16", BF16, "has avx512_bf16 and amx_bf16"),
    ([H100, A100], "", BF16, "cuda:1 (A100) has capability 8.0 (the weakest of 2 devices)"),
    ([H100, H100, T4], "", F16, "cuda:2 (T4) has capability 7.5, and bfloat16 needs 8.0 (the weakest of 3"),
    ([T4, P100, H100], "", F32, "cuda:1 (P100)"),
    ([("MI250", (0, 0), "gfx90a")], "", BF16, "cuda:0 (MI250) is gfx90a"),
    ([("MI50", (0, 0), "gfx906")], "", F16, "is gfx906, of which no bfloat16 units are known")])
def test_every_capability_no_gpu_and_mixed_gpus(gpus, flags, dtype, words):
    machine = Machine(*gpus, flags=flags)
    assert amp.get_optimal_dtype(query=machine) == dtype
    supported, reason = amp.detect_bf16_support(query=machine)
    assert supported is (dtype == BF16) and words in reason


def test_a_capability_names_the_weakest_gpu():
    assert amp.get_bf16_capability(query=Machine(H100, T4)) == (
        False, "cuda:1 (T4) has capability 7.5, and bfloat16 needs 8.0 (the weakest of 2 devices)",
        "T4", (7, 5))
    found = amp.get_bf16_capability(query=Machine(flags="avx512_bf16"))
    assert found.supported and found.gpu_name == "Unknown" and found.compute_capability == (0, 0)


def test_the_index_of_a_device_counts():
    machine = Machine(H100, T4, current=1)
    found = [amp.get_amp_dtype_for_device(device, machine)
             for device in ("cuda:0", "cuda:1", torch.device("cuda", 0), "cuda", "cpu", "mps")]
    assert found == [BF16, F16, BF16, F16, F32, F32]
    with pytest.raises(ValueError, match="there is no device cuda:2: torch sees cuda:0, cuda:1"):
        amp.get_amp_dtype_for_device("cuda:2", machine)
    with pytest.raises(ValueError, match="there is no device cuda: torch sees no GPU"):
        amp.get_amp_dtype_for_device("cuda", Machine())


def test_a_job_on_named_devices_asks_no_others():
    machine = Machine(H100, T4, flags="avx512_bf16")
    assert amp.get_optimal_dtype(["cuda:0"], machine) == BF16
    assert amp.get_optimal_dtype(["cuda:0", "cpu"], machine) == BF16
    assert amp.get_optimal_dtype("cpu", machine) == BF16
    assert amp.get_optimal_dtype(["cuda:1", "cpu"], machine) == F16
    with pytest.raises(ValueError, match="no device was given"):
        amp.get_optimal_dtype([], machine)


class Emulating:
    """torch.cuda on a machine with an H100 and a T4, where is_bf16_supported() is true."""

    facts = [SimpleNamespace(name="H100", major=9, minor=0, gcnArchName=""),
             SimpleNamespace(name="T4", major=7, minor=5, gcnArchName="gfx942:sramecc+:xnack-")]

    def is_available(self):
        return True

    def device_count(self):
        return len(self.facts)

    def get_device_properties(self, index):
        return self.facts[index]

    def current_device(self):
        return 0

    def is_bf16_supported(self, including_emulation=True):
        return True


def test_torchs_own_answer_counts_emulation_and_is_not_asked():
    assert amp.get_optimal_dtype(query=TorchDevices(Emulating(), hip=None)) == F16


def test_capabilities_of_rocm_are_not_those_of_nvidia():
    """MI300 is (9, 4) to torch, MI50 (9, 0)."""
    first, second = TorchDevices(Emulating(), hip="6.2").gpus()
    assert second.arch == "gfx942" and second.capability == (0, 0)
    assert amp.get_amp_dtype_for_device("cuda:1", TorchDevices(Emulating(), hip="6.2")) == BF16


def test_the_cpu_here_is_asked_as_torch_asks_it():
    """One reads /proc/cpuinfo, the other executes cpuid."""
    flags = TorchDevices().cpu().flags
    assert ("avx512_bf16" in flags) == torch.cpu._is_avx512_bf16_supported()
    assert ("amx_tile" in flags) == torch.cpu._is_amx_tile_supported()


def test_status_has_a_line_for_each_device_and_the_choice(capsys):
    amp.print_bf16_status(query=Machine(H100, T4))
    assert capsys.readouterr().out.splitlines() == [
        "cuda:0   bfloat16: cuda:0 (H100) has capability 9.0",
        "cuda:1   float16: cuda:1 (T4) has capability 7.5, and bfloat16 needs 8.0",
        "altgrad  float16: cuda:1 (T4) has capability 7.5, and bfloat16 needs 8.0 (the weakest of 2 devices)"]
