"""Our kernels for symmetric products reach most of mma's rate on the model, without a stack."""

import pytest

import machine
import products
import sass
import simulate
import steps

SPEC = steps.ROOT / "tests/codegen/own-products.mlir"
KERNELS = ("altgrad_symmetric_bf16", "altgrad_symmetric_columns_bf16")
# Of the products on and below the diagonal. On an H100, whose mma is quicker, ldmatrix takes as long as mma does.
LEAST = {("A100", 2048): 0.6, ("A100", 4096): 0.6, ("H100", 2048): 0.35, ("H100", 4096): 0.5}
MACHINES = machine.machines()


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """By machine, what ptxas makes."""
    try:
        for name in ("ptxas", "cuobjdump", "nvdisasm"):
            sass.tool(name)
    except sass.MissingTool as missing:
        pytest.skip(f"{missing}: machine code was not looked at")
    found = {}
    for name in sorted({name for name, _ in LEAST}):
        target, cubin = MACHINES[name].target, str(tmp_path_factory.mktemp("products") / "cubin")
        flags = ("--rule=product", "--own-products", "--emit=ptx", f"--target={target}")
        sass.assemble(steps.compiler(str(SPEC), *flags), target, cubin)
        found[name] = sass.read(cubin)
    return found


@pytest.mark.parametrize("name", sorted({name for name, _ in LEAST}))
@pytest.mark.parametrize("kernel", KERNELS)
def test_there_is_no_stack(functions, name, kernel):
    function = functions[name][kernel]
    assert (function.stack, function.local) == (0, 0) and function.registers <= 255


@pytest.mark.parametrize("name,n", LEAST)
@pytest.mark.parametrize("kernel", KERNELS)
def test_share_of_the_rate_of_mma(functions, name, n, kernel):
    job = products.Job(MACHINES[name], products.Product(functions[name][kernel]), n, n)
    share = job.share(simulate.run([job])[0])
    print(f"{kernel} {n} x {n} on {name}: {share:.2f} of mma's rate, {job.product.registers} registers")
    assert share >= LEAST[name, n]
