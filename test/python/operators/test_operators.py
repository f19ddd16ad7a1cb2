"""Every row of the operator table equals eager, on the row's own samples.

A family and dtype is one compilation; a failure names its rows.
"""

from __future__ import annotations

import opinfo
import pytest
from operator_rows import DTYPES, TABLE, names, overload

import anabranch

FAMILIES = sorted({row["family"] for row in TABLE})


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
