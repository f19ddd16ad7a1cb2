"""Every row of the operator table equals eager, on the row's own samples.

A test compiles the rows of one family and dtype together; a failure names its rows. The
tests keep operators whole that PyTorch would decompose, so that their rows are used.
"""

from __future__ import annotations

import functools

import opinfo
import pytest
from operator_rows import DTYPES, TABLE, names, overload

import anabranch
from anabranch.capture.aot import decompositions

WHOLE = {
    operator: lambda *args, **kwargs: NotImplemented
    for operator in (overload(row["op"]) for row in TABLE)
    if operator in decompositions()
}
FAMILIES = sorted({row["family"] for row in TABLE})


def calls(family: str, dtype: str):
    """(row's name, sample) of each sample that eager can run."""
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
    backend = functools.partial(anabranch.anabranch, decompositions=WHOLE)
    samples = [sample for _, sample, _ in wanted]
    got = opinfo.run_together(samples, dynamic=False, by=backend)
    failures = []
    for (name, sample, expected), actual in zip(wanted, got, strict=True):
        try:
            opinfo.compare(sample, actual, expected)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)
    report = anabranch.last_report()
    assert "eager" not in report
    # A row may refuse a sample of its dtypes, but our kernels run its samples in f32.
    if dtype == "f32":
        reasons = [entry["reason"] for entry in report["fallbacks"]]
        assert not [reason for reason in reasons if "gradient" not in reason]
