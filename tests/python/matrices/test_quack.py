"""Muon's symmetric products by QuACK, which a module of the tests plays, beside the library's."""

import importlib.metadata
import os
import sys
import types

import pytest
import torch
from altgrad import _quack
from altgrad._core import core
from altgrad._library import library
from altgrad.optim import NewtonSchulz
from test_own_products import LR, Driver, cache, stepped  # noqa: F401

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="only GPUs have this function")


class Quack:
    """What gemm_symmetric was called with; a call takes `us` on the test driver's clock."""

    def __init__(self, driver, us):
        self._driver, self._us, self.calls, self.fails = driver, us, [], False

    def gemm_symmetric(self, A, B, C=None, out=None, alpha=1.0, beta=1.0):
        self.calls.append((A.dtype, tuple(A.shape), C is not None))
        if self.fails:
            raise NotImplementedError("gemm_symmetric is only supported on newer GPUs")
        product = alpha * (A.double() @ B.double()) + (beta * C.double() if C is not None else 0)
        lower = product.tril().to(A.dtype)
        out.copy_(lower + lower.tril(-1).mT)
        fake = self._driver.fake
        fake.fakecuda_set(b"clock", fake.fakecuda_get(b"clock") + self._us)


@pytest.fixture
def installed(cache):  # noqa: F811
    """Installs a Quack for each version: what was measured with another one is not known. Bundles have no kernels for it."""
    compile = core().altgrad_core_compile

    def compiled(*given):
        with cache.context() as here:
            here.delenv("ALTGRAD_CUDA_PRODUCTS")
            return compile(*given)

    cache.setattr(core(), "altgrad_core_compile", compiled)

    def install(driver, us, capability=(9, 0), package="quack"):
        quack = Quack(driver, us)
        cache.setitem(sys.modules, package, types.ModuleType(package))
        cache.setitem(sys.modules, f"{package}.gemm_interface", quack)
        found = lambda name: str(id(quack))
        cache.setattr(_quack, "version", found)
        cache.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        _quack._function.cache_clear()
        _quack.offer_quack()
        return quack

    yield install
    library().altgrad_set_symmetric_gemm(None, None, None)
    _quack._function.cache_clear()


@pytest.mark.parametrize("shape, dtype", [((256, 320), torch.bfloat16), ((328, 264), torch.float16),
                                          ((2, 264, 272), torch.bfloat16)], ids=str)
def test_quack_where_it_is_faster_gives_the_step_of_the_library_within_rounding(cache, installed, shape, dtype):  # noqa: F811
    given = {"orthogonalize": NewtonSchulz(dtype=dtype)}
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "library")
    with Driver(100):
        wanted = stepped([shape], 1, **given)
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "auto")
    with Driver(100) as driver:
        quack = installed(driver, us=60)
        stepped([shape], 1, **given)
        driver.calls, quack.calls[:] = 0, []
        got = stepped([shape], 1, **given)
    n, k, batch = min(shape[-2:]), max(shape[-2:]), shape[:-2]
    assert quack.calls == [(dtype, (*batch, n, k), False), (dtype, (*batch, n, n), True)] * 2 and driver.calls == 2
    for one, other in zip(got, wanted):
        assert (one - other).abs().max() <= LR * 2.0 ** -6 * max(1.0, shape[-2] / shape[-1]) ** 0.5


def test_where_it_is_slower_the_library_multiplies(installed):
    with Driver(50) as driver:
        quack = installed(driver, us=60)
        stepped([(256, 336)], 1)
        assert len(quack.calls) == 12  # six of each kind
        stepped([(256, 336)], 1)
    assert len(quack.calls) == 12


def test_an_error_is_logged_once_and_the_library_multiplies(cache, installed, caplog):  # noqa: F811
    with Driver(100) as driver:
        quack = installed(driver, us=10)
        quack.fails = True
        for param in stepped([(256, 344), (256, 352)]):
            assert param.isfinite().all()
    assert len(quack.calls) == 1 and [record.name for record in caplog.records] == ["altgrad.quack"]
    assert "QuACK does no more products" in caplog.text and "only supported on newer GPUs" in caplog.text


@pytest.mark.parametrize("reason", ["reproducible", "deterministic", "old", "off", "library", "narrow", "odd"])
def test_it_is_not_asked(cache, installed, reason):  # noqa: F811
    """By who wants equal bits, on an older GPU, where a variable says so, and of what its kernels do not load."""
    with Driver(100) as driver:
        cache.setenv("ALTGRAD_QUACK", "0" if reason == "off" else "")
        cache.setenv("ALTGRAD_CUDA_PRODUCTS", "library" if reason == "library" else "auto")
        quack = installed(driver, us=10, capability=(8, 0) if reason == "old" else (9, 0))
        torch.use_deterministic_algorithms(reason == "deterministic")
        try:
            stepped([{"narrow": (248, 360), "odd": (257, 360)}.get(reason, (256, 360))], 1,
                    reproducible=reason == "reproducible")
        finally:
            torch.use_deterministic_algorithms(False)
    assert not quack.calls


def test_torchs_copy_is_used_where_there_is_no_package(cache, installed):  # noqa: F811
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    with Driver(100) as driver:
        quack = installed(driver, us=10, package="torch._vendor.quack")
        cache.setattr(_quack, "version", missing)
        cache.setattr(_quack, "find_spec", lambda name: True)
        _quack.offer_quack()
        stepped([(256, 368)], 1)
    assert len(quack.calls) == 12 + 4
