"""Linear layers that dequantise a frozen weight equal float64; the weight stays packed."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
import torch
from checking import exported_for
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from quantized_weights import (
    Case,
    Quantized,
    beside_a_bad_row,
    exact,
    largest_prepared_float,
    reads_few_bits,
    relative_error,
)

import anabranch

TARGETS = ["avx2", "avxvnni", "avx512", "avx512vnni", "amx"]
HALVES = [torch.bfloat16, torch.float16]


def run(case: Case, rows: int, **options):
    module, x = Quantized(case).eval(), torch.randn(rows, case.k).to(case.dtype)
    config = anabranch.Config(freeze=True, **options)
    with torch.no_grad():
        found = anabranch.compile(module, config=config, dynamic=False)(x)
        return found, module(x), exact(module, x)


def check(case: Case, rows: int, **options) -> None:
    found, eager, expected = run(case, rows, **options)
    assert found.dtype == eager.dtype and found.shape == eager.shape
    least = {torch.float32: 4e-7, torch.bfloat16: 2e-3, torch.float16: 3e-4}
    allowed = max(2 * relative_error(eager, expected), least[case.dtype])
    assert relative_error(found, expected) <= allowed, (case, rows)


@pytest.mark.parametrize("zeros", ["center", "float", "int", "added", "none"])
@pytest.mark.parametrize("group", [32, 64, 128, 256, 0])
@pytest.mark.parametrize("bits", [4, 8])
def test_groups_and_zero_points(bits, group, zeros, tmp_path) -> None:
    check(Case(65, 512, group, bits, zeros), rows=2, dump=str(tmp_path))
    assert reads_few_bits(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("bits", [4, 8])
def test_dtypes(dtype, bits, tmp_path) -> None:
    case = Case(97, 256, 64, bits, "float", dtype=dtype)
    check(case, rows=5, dump=str(tmp_path))
    assert reads_few_bits(tmp_path)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 70, 300])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows(bits: int, rows: int, tmp_path) -> None:
    check(Case(70, 128, 32, bits, "int"), rows, dump=str(tmp_path))
    assert reads_few_bits(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("zeros", ["center", "added"])
@pytest.mark.parametrize("k", [32, 50, 64, 1030])
@pytest.mark.parametrize("bits", [4, 8])
def test_many_rows_read_no_floats(bits, k, zeros, dtype, tmp_path) -> None:
    group = 32 if k % 32 == 0 else 0
    case = Case(131, k, group, bits, zeros, dtype=dtype)
    check(case, rows=41, dump=str(tmp_path))
    assert reads_few_bits(tmp_path)
    assert largest_prepared_float(tmp_path) < case.n * case.k


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bits", [4, 8])
def test_symbolic_rows(bits, dtype, tmp_path) -> None:
    case = Case(97, 256, 64, bits, "int", dtype=dtype)
    module = Quantized(case).eval()
    config = anabranch.Config(freeze=True, dump=str(tmp_path), shapes="dynamic")
    compiled = anabranch.compile(module, config=config)
    least = {torch.float32: 4e-7, torch.bfloat16: 2e-3}[dtype]
    with torch.no_grad():
        for rows in (5, 2, 40, 301):
            x = torch.randn(rows, case.k).to(dtype)
            expected = exact(module, x)
            allowed = max(2 * relative_error(module(x), expected), least)
            assert relative_error(compiled(x), expected) <= allowed, rows
    assert reads_few_bits(tmp_path)
    assert largest_prepared_float(tmp_path) < case.n * case.k


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 32, 32),
        Case(3, 50, 0),
        Case(130, 274, 0, bits=8),
        Case(65, 1030, 0, bits=8, zeros="int", transposed=True),
        Case(64, 96, 96, packed="halves"),
        Case(64, 192, 48, packed="halves", zeros="added"),
        Case(33, 2, 0),
        Case(200, 4112, 16, bits=8, zeros="int"),
        Case(70, 4096, 64, zeros="added"),
    ],
)
@pytest.mark.parametrize("rows", [3, 40])
def test_sizes(case: Case, rows: int) -> None:
    check(case, rows)


@pytest.mark.parametrize("group", [8, 24])
def test_other_groups_are_computed_from_floats(group: int, tmp_path) -> None:
    check(Case(40, 96, group), rows=2, dump=str(tmp_path))
    assert not reads_few_bits(tmp_path)


def check_package(case: Case, rows: int, target: str, path: Path) -> None:
    module, x = Quantized(case).eval(), torch.randn(rows, case.k).to(case.dtype)
    package = exported_for(target, module, (x,), path, TARGETS)
    with torch.no_grad():
        found, eager, expected = package(x), module(x), exact(module, x)
    allowed = max(2 * relative_error(eager, expected), 4e-7)
    assert relative_error(found, expected) <= allowed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_targets(target, bits, dtype, shared_folder) -> None:
    case = Case(131, 288, 32, bits, "int", dtype=dtype)
    for rows in (1, 6, 37):
        name = f"package{bits}-{dtype}-{rows}"
        check_package(case, rows, target, shared_folder / name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [2, 50, 274])
def test_targets_whose_vectors_the_padding_exceeds(
    depth, target, shared_folder
) -> None:
    """Rows are adjacent in memory: a read beyond a row would read the next one."""
    check_package(Case(33, depth, 0), 3, target, shared_folder / f"package{depth}")


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_a_row_with_no_number(bad: float, rows: int) -> None:
    module, x, found = beside_a_bad_row(rows, bad, anabranch.Config(freeze=True))
    assert relative_error(found, exact(module, x)) < 4e-7


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-30, 1e30, 1e37])
def test_sizes_of_activations(size: float, rows: int) -> None:
    module = Quantized(Case(40, 128)).eval()
    x = torch.randn(rows, 128) * size
    with torch.no_grad():
        found = anabranch.compile(module, freeze=True)(x)
    error = (found.double() - exact(module, x)).abs().max().item()
    assert error <= 1e-6 * 128 * size + 1e-34


def test_a_changed_weight_is_packed_again() -> None:
    module = Quantized(Case(40, 128, zeros="int")).eval()
    compiled, x = anabranch.compile(module, freeze=True), torch.randn(2, 128)
    with torch.no_grad():
        for _ in range(2):
            assert relative_error(compiled(x), exact(module, x)) < 4e-7
            module.weight.copy_(torch.randint(0, 256, (40, 64), dtype=torch.uint8))
            module.scale.mul_(3)
        assert relative_error(compiled(x), exact(module, x)) < 4e-7


def test_prologue_and_epilogue() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = Quantized(Case(96, 64)), Quantized(Case(64, 96))
            self.bias = torch.nn.Parameter(torch.randn(96))

        def forward(self, x):
            gate = torch.nn.functional.silu(self.up(x * 0.5) + self.bias)
            return x + self.down(gate)

    block, x = Block().eval(), torch.randn(4, 64)
    with torch.no_grad():
        found = anabranch.compile(block, freeze=True)(x)
        torch.testing.assert_close(found, block(x), rtol=1e-5, atol=1e-5)


cases = st.builds(
    lambda n, groups, group, *rest: Case(n, groups * group, group, *rest),
    st.integers(1, 150),
    st.integers(1, 9),
    st.sampled_from([16, 32, 64, 128, 256]),
    st.sampled_from([4, 8]),
    st.sampled_from(["center", "float", "int", "added", "none"]),
    st.sampled_from(["pairs", "halves"]),
    st.sampled_from([torch.float32, *HALVES]),
)


@settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@hypothesis.given(cases, st.integers(1, 50), st.integers(0, 1 << 30))
def test_random_cases(case: Case, rows: int, seed: int) -> None:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    check(case, rows)
