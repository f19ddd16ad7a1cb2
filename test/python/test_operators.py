"""Every row of the operator table equals eager, on the row's own samples.

A family and dtype is one compilation; a failure names its rows.
"""

from __future__ import annotations

import json

import opinfo
import pytest
import torch

import anabranch
from anabranch import _C

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
TABLE = json.loads(_C.operator_table())
FAMILIES = sorted({row["family"] for row in TABLE})


def names(dtype: torch.dtype) -> dict[str, object]:
    """What the samples of a row are written with: see OpTable.h."""

    def any_value(*shape):
        if dtype is torch.bool:
            return torch.rand(shape) > 0.5
        if dtype.is_floating_point:
            return (torch.rand(shape) * 1.8 - 0.9).to(dtype)
        low = 0 if dtype is torch.uint8 else -9
        return torch.randint(low, 10, shape).to(dtype)

    def positive(*shape):
        if dtype.is_floating_point:
            return (torch.rand(shape) * 2 + 1.05).to(dtype)
        return torch.randint(1, 10, shape).to(dtype)

    return {
        "T": any_value,
        "P": positive,
        "B": lambda *shape: torch.rand(shape) > 0.5,
        "I": lambda limit, *shape: torch.randint(0, limit, shape),
        "F": lambda *shape: torch.randn(shape),
        "dtype": dtype,
        "torch": torch,
        "call": lambda *args, **kwargs: (args, kwargs),
    }


def overload(name: str):
    namespace, _, rest = name.rpartition("::")
    base, _, variant = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace or "aten"), base)
    return getattr(packet, variant or "default")


def calls(family: str, dtype: str):
    """(row's name, sample) of everything that eager can do."""
    known = names(DTYPES[dtype])
    for row in TABLE:
        if row["family"] != family or dtype not in row["dtypes"]:
            continue
        for text in filter(None, row["samples"].split(";")):
            args, kwargs = eval(f"call({text.strip()})", known)
            item = opinfo.Call(args[0] if args else None, args[1:], kwargs)
            target = overload(row["op"])
            sample = opinfo.as_sample(target if args else _without(target), item)
            yield row["op"], sample


def _without(target):
    return lambda first, *args, **kwargs: target(*args, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family, dtype):
    wanted = []
    for name, sample in calls(family, dtype):
        wanted += [(name, *pair) for pair in opinfo.eager([sample])]
    if not wanted:
        pytest.skip("no samples in this dtype")
    got = opinfo.run_together([sample for _, sample, _ in wanted], dynamic=False)
    failures = []
    for (name, sample, expected), actual in zip(wanted, got, strict=True):
        try:
            opinfo.compare(sample, actual, expected)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)
    report = anabranch.last_report()
    assert "eager" not in report
    # A row may refuse what its dtypes allow, but in f32 its samples are ours.
    if dtype == "f32":
        assert not report["fallbacks"]
