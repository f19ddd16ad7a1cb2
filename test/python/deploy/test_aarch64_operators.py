"""Rows of the operator table, exported on this machine for 64-bit Arm, give eager's
results on an emulated core. One package has the rows of a family. `make test-aarch64`
runs all families, each on a core of ARMv8.2 and on one with every feature."""

from __future__ import annotations

import os
from pathlib import Path

import emulated
import opinfo
import pytest
import torch
from operator_rows import DTYPES, TABLE, names, overload
from opinfo_compare import TOLERANCES

import anabranch

pytestmark = emulated.needed
FEW = ("activation", "matmul")
ASKED = os.environ.get("ANABRANCH_EMULATE") is not None
FAMILIES = sorted({row["family"] for row in TABLE}) if ASKED else FEW
CORES = {"aarch64": "neoverse-n1", "neoverse-v1": "max"}
TARGETS = list(CORES) if ASKED else ["aarch64"]


class Together(torch.nn.Module):
    """The results of all samples, a list for each."""

    def __init__(self, samples: list[opinfo.Sample]) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, *tensors: torch.Tensor) -> list[list[torch.Tensor]]:
        results, start = [], 0
        for sample in self.samples:
            end = start + len(sample.tensors)
            results.append(sample.function(*tensors[start:end]))
            start = end
        return results


def first_sample(row: dict) -> opinfo.Sample:
    """The row's first sample, in f32 if the row has that dtype."""
    dtype = "f32" if "f32" in row["dtypes"] else row["dtypes"][0]
    text = row["samples"].split(";")[0]
    args, kwargs = eval(f"call({text.strip()})", names(DTYPES[dtype]))
    target = overload(row["op"])
    if args:
        return opinfo.as_sample(target, opinfo.Call(args[0], args[1:], kwargs))
    return opinfo.as_sample(
        lambda first, **named: target(**named), opinfo.Call(None, (), kwargs)
    )


def check(row: str, actual: torch.Tensor, wanted: torch.Tensor) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), row
    relative, absolute = TOLERANCES.get(wanted.dtype, (0.0, 0.0))
    torch.testing.assert_close(
        *(actual, wanted),
        rtol=relative,
        atol=absolute,
        equal_nan=True,
        msg=lambda text: f"{row}: {text}",
    )


def test_300_rows_have_samples() -> None:
    assert sum(1 for row in TABLE if row["samples"]) >= 300


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    rows = [row for row in TABLE if row["family"] == family and row["samples"]]
    if not rows:
        pytest.skip("no samples")
    samples = [first_sample(row) for row in rows]
    given = tuple(tensor for sample in samples for tensor in sample.tensors)
    model = Together(samples).eval()
    with torch.no_grad():
        wanted = model(*(opinfo.copied(tensor) for tensor in given))
    package = tmp_path / "package.anb"
    anabranch.export(model, package, given, targets=[target])
    got = emulated.run_package(package, given, tmp_path, CORES[target])
    flat = [(row["op"], t) for row, some in zip(rows, wanted) for t in some]
    for (row, tensor), actual in zip(flat, got, strict=True):
        check(row, actual, tensor)
