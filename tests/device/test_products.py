"""What checks our kernels for products on a GPU, proved on a driver that the interpreter plays."""

import ctypes
import sys

import pytest

torch = pytest.importorskip("torch")
import formpack  # noqa: E402
import forms  # noqa: E402
import products  # noqa: E402

sys.path.insert(0, str(formpack.ORACLE))
from fakedriver import FakeDriver  # noqa: E402
from interpreter import Library  # noqa: E402

if not formpack.INTERPRETER.exists():
    pytest.skip("not built: tools/build.sh", allow_module_level=True)


def carved(fake, *tensors):
    """Copies of tensors in the driver's memory, apart."""
    driver = forms.Gpu(fake)
    base, room, at = ctypes.c_uint64(), sum(t.nbytes + 256 for t in tensors), 0
    driver.call("cuMemAlloc_v2", ctypes.byref(base), ctypes.c_size_t(room))
    copies = []
    for t in tensors:
        held = torch.from_numpy(fake.memory[at:at + t.nbytes]).view(t.dtype).view(t.shape)
        copies.append(held.copy_(t))
        at += -(-t.nbytes // 256) * 256
    return driver, copies


@pytest.mark.parametrize("columns", [False, True])
def test_a_product_is_within_its_bound_and_a_wrong_one_is_not(columns):
    torch.manual_seed(1)
    x, d = torch.randn(2, 136, 72).bfloat16(), torch.randn(2, 136, 136).bfloat16()
    d = d + d.mT
    fake = FakeDriver(Library(str(formpack.INTERPRETER)), chip=80)
    driver, (held, added, c) = carved(fake, x.mT.contiguous() if columns else x, d, torch.zeros_like(d))
    kernels = products.Kernels(driver, products.ptx("sm_80"))
    kernels.product(held.data_ptr(), added.data_ptr(), c.data_ptr(), 2, 136, 72, 0.5, -4.775, columns)
    driver.call("cuCtxSynchronize")
    assert torch.equal(c, c.mT) and products.far(c, x, d, 72, 0.5, -4.775) <= 1
    c[1, 135, 3] += c[1, 135, 3].abs() / 32 + 1
    assert products.far(c, x, d, 72, 0.5, -4.775) > 1


def test_without_a_gpu_it_is_left_out():
    for device in ("cpu:v3", "privateuseone:0"):
        with pytest.raises(products.Skipped):
            products.own_products({}, device)
