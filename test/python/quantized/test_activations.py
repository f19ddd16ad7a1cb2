"""activations="int8": products with weights of 4 and 8 bits round their other operand
to one byte, with a scale for each row and group of at most 256 columns."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
import torch
from checking import exported_for
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from quantized_weights import Case, Quantized, beside_a_bad_row, exact

import anabranch

TARGETS = ["avx2", "avxvnni", "avx512", "avx512vnni", "amx"]
# Those that multiply bytes.
BYTES = ["avxvnni", "avx512vnni", "amx"]
CONFIG = anabranch.Config(freeze=True, activations="int8")


def half_steps(case: Case, x: torch.Tensor) -> torch.Tensor:
    """The most that rounding to a byte may move each element of x."""
    group = min(case.group or case.k, 256)
    rows = torch.nn.functional.pad(x.double(), (0, -case.k % group))
    largest = rows.unflatten(-1, (-1, group)).abs().amax(-1, keepdim=True)
    return (largest / 127 / 2).expand(-1, -1, group).flatten(-2)[..., : case.k]


def check(module: Quantized, x: torch.Tensor, found: torch.Tensor) -> None:
    """Each result is within what rounding may change, and twice eager's own error."""
    expected = exact(module, x)
    weight = module.dequantized(torch.float64)
    moved = half_steps(module.case, x) @ weight.abs().t()
    # Zero points may cancel much larger products.
    sizes = x.double().abs() @ (weight.abs() + 1).t()
    unit = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}
    rounding = unit[x.dtype] * (2 * expected.abs() + moved) + 2**-20 * sizes
    wrong = (found.double() - expected).abs() > moved * 1.001 + rounding
    assert not wrong.any(), (module.case, x.shape, wrong.nonzero()[:4])


def on_target(module, x, target: str, path: Path) -> torch.Tensor:
    config = anabranch.Config(activations="int8")
    package = exported_for(target, module, (x,), path, TARGETS, config=config)
    with torch.no_grad():
        return package(x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_targets(target, bits, dtype, shared_folder) -> None:
    case = Case(131, 288, 32, bits, "int", dtype=dtype)
    module = Quantized(case).eval()
    for rows in (1, 6, 37, 150):
        x = torch.randn(rows, case.k).to(dtype)
        path = shared_folder / f"package{bits}-{dtype}-{rows}"
        check(module, x, on_target(module, x, target, path))


@pytest.mark.parametrize("target", BYTES)
@pytest.mark.parametrize("rows", [1, 32, 33, 200])
def test_values_below_half_a_step_are_rounded_to_zero(
    target, rows, shared_folder
) -> None:
    """So it is not another kernel that runs. Beside 127, values below 1/2 count zero."""
    module = Quantized(Case(70, 256, 64)).eval()
    x = torch.rand(rows, 256) * 0.9 - 0.45
    x[:, ::64] = 127
    rounded = torch.zeros_like(x)
    rounded[:, ::64] = 127
    found = on_target(module, x, target, shared_folder / f"package{rows}")
    torch.testing.assert_close(
        found, exact(module, rounded).float(), rtol=1e-5, atol=1e-4
    )


@hypothesis.given(
    n=st.integers(1, 150),
    groups=st.integers(1, 9),
    group=st.sampled_from([0, 16, 32, 48, 64, 128, 256, 320, 512]),
    rows=st.integers(1, 170),
    bits=st.sampled_from([4, 8]),
    zeros=st.sampled_from(["center", "float", "int", "added", "none"]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_product(n, groups, group, rows, bits, zeros, dtype, seed) -> None:
    torch.manual_seed(seed)
    k = group * min(groups, 1024 // group) if group else 2 * groups * 17
    case = Case(n, k, group, bits, zeros, dtype=dtype)
    module = Quantized(case).eval()
    # Columns of very different sizes, as language models have them.
    x = (torch.randn(rows, k) * torch.exp(3 * torch.randn(k))).to(dtype)
    with torch.no_grad():
        found = anabranch.compile(module, config=CONFIG, dynamic=False)(x)
    torch._dynamo.reset()
    check(module, x, found)


@pytest.mark.parametrize("bits", [4, 8])
def test_symbolic_rows(bits: int) -> None:
    module = Quantized(Case(97, 256, 64, bits, "int")).eval()
    config = anabranch.Config(freeze=True, activations="int8", shapes="dynamic")
    compiled = anabranch.compile(module, config=config)
    with torch.no_grad():
        for rows in (5, 2, 40, 301, 12, 11):
            x = torch.randn(rows, 256)
            check(module, x, compiled(x))


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_a_row_with_no_number(bad: float, rows: int) -> None:
    check(*beside_a_bad_row(rows, bad, CONFIG))


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-30, 1e30, 1e36])
def test_sizes_of_activations(size: float, rows: int) -> None:
    module = Quantized(Case(40, 128)).eval()
    x = torch.randn(rows, 128) * size
    with torch.no_grad():
        found = anabranch.compile(module, config=CONFIG)(x)
    moved = half_steps(module.case, x) @ module.dequantized(torch.float64).abs().t()
    error = (found.double() - exact(module, x)).abs()
    assert (error <= moved * 1.001 + 1e-6 * 128 * size + 1e-34).all()


def test_each_row_is_rounded_alone() -> None:
    """A row has the same result beside any others, and in any number of them."""
    module = Quantized(Case(70, 256, 32, 4, "added")).eval()
    x = torch.randn(90, 256)
    with torch.no_grad():
        found = anabranch.compile(module, config=CONFIG, dynamic=False)(x)
        torch._dynamo.reset()
        for rows in (1, 7, 40):
            few = anabranch.compile(module, config=CONFIG, dynamic=False)(x[:rows])
            torch.testing.assert_close(few, found[:rows], rtol=1e-6, atol=1e-5)


def test_exact_is_the_default() -> None:
    module, x = Quantized(Case(40, 128)).eval(), torch.randn(3, 128)
    with torch.no_grad():
        found = anabranch.compile(module, freeze=True)(x)
        stated = anabranch.compile(module, freeze=True, activations="exact")(x)
    assert torch.equal(found, stated)
    error = (found.double() - exact(module, x)).norm() / exact(module, x).norm()
    assert error < 4e-7


@pytest.mark.parametrize("wrong", ["int4", "fp8", None, 8])
def test_another_word_is_refused(wrong) -> None:
    with pytest.raises(
        ValueError, match=r"activations must be one of exact, int8; got"
    ):
        anabranch.Config(activations=wrong)
