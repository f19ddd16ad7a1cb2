"""Compiled equals eager for PyTorch's OpInfo database.

`make test` takes a part: one sample of every operator, each in one dtype.
ANABRANCH_OPINFO=full takes up to 16 samples in every dtype, static and dynamic;
ANABRANCH_OPINFO_CHUNK=3/10 takes the third tenth of the operators.
scripts/run_opinfo.py does the same in processes and prints a table.
"""

from __future__ import annotations

import os

import opinfo
import pytest

FULL = os.environ.get("ANABRANCH_OPINFO") == "full"
CHUNK, _, CHUNKS = os.environ.get("ANABRANCH_OPINFO_CHUNK", "1/1").partition("/")


def selected():
    operators = opinfo.database()
    for number, operator in enumerate(operators):
        if number % int(CHUNKS) != int(CHUNK) - 1:
            continue
        dtypes = [
            name
            for name, dtype in opinfo.DTYPES.items()
            if operator.supports_dtype(dtype, "cpu")
        ]
        if not FULL and dtypes:
            # Most in f32, the others spread evenly.
            dtypes = [dtypes[number // 3 % len(dtypes)] if number % 3 == 0 else "f32"]
        for name in dtypes:
            yield pytest.param(operator, name, id=f"{opinfo.title(operator)}-{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "dtype"), selected())
@pytest.mark.parametrize("dynamic", [False, True] if FULL else [False])
def test_equals_eager(operator, dtype, dynamic):
    if not operator.supports_dtype(opinfo.DTYPES[dtype], "cpu"):
        pytest.skip("no such kernel in PyTorch")
    limit = 16 if FULL else 2
    outcome = opinfo.check(operator, opinfo.DTYPES[dtype], limit, dynamic)
    assert not outcome.failures, "\n".join(outcome.failures)
    if outcome.known:
        pytest.xfail("PyTorch's own trace: " + outcome.known[0])
