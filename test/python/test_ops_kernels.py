"""Kernels with loops of their own shape equal eager: sizes that fill vectors,
sizes that leave a rest, and both widths of vectors."""

from __future__ import annotations

import json

import pytest
import torch
from checking import check

from anabranch import package

SIZES = {"even": (48, 128), "odd": (37, 131), "narrow": (67, 9), "one": (1, 77)}


@pytest.fixture(params=["host", "avx2"])
def cpu(request, monkeypatch):
    """Compiles for this machine, or for one that has no more than AVX2."""
    options = package._compiler_options

    def with_cpu(*arguments):
        return json.dumps(json.loads(options(*arguments)) | {"cpu": request.param})

    monkeypatch.setattr(package, "_compiler_options", with_cpu)
    torch._dynamo.reset()
    return request.param


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-9, 9, shape).to(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.float64]
)
def test_outer_reductions(cpu, size, dtype):
    rows, columns = SIZES[size]
    check(
        lambda x: (x.sum(0), x.amax(0), x.sum(1), (x * 2 + 1).amin(0), x.sum((0, 1))),
        values(dtype, rows, columns),
        tolerance={"rtol": 1e-2, "atol": 0.1} if dtype == torch.bfloat16 else None,
    )
    check(lambda x: (x.sum(1), x.sum((0, 2)), x.amax(0)), values(dtype, 5, rows, 70))
