"""Compiled equals eager for PyTorch's OpInfo database.

`make test` takes a part: two samples of every second operator, each in one dtype and
form. `make soak` takes all operators in all of them, in turns. ANABRANCH_OPINFO=full
takes up to 16 samples in every dtype and form, static and dynamic;
ANABRANCH_OPINFO_CHUNK=3/10 takes the third tenth of the operators.
scripts/run_opinfo.py does the same in processes and prints a table.
"""

from __future__ import annotations

import os

import opinfo
import pytest
import torch
from opinfo_samples import Call, as_sample

FULL = os.environ.get("ANABRANCH_OPINFO") == "full"
CHUNK, _, CHUNKS = os.environ.get("ANABRANCH_OPINFO_CHUNK", "1/1").partition("/")


def selected():
    operators = opinfo.database()
    for number, operator in enumerate(operators):
        if number % int(CHUNKS) != int(CHUNK) - 1:
            continue
        cases = [
            (name, form)
            for form in opinfo.FORMS
            for name in opinfo.DTYPES
            if opinfo.supports(operator, name, form)
        ]
        if not FULL and cases:
            # Most operators in their first dtype; the others are spread evenly over
            # dtypes and forms.
            case = number // 6 % len(cases) if number % 6 == 0 else 0
            cases = [cases[case]] if number % 2 == 0 else []
        for name, form in cases:
            title = f"{opinfo.title(operator)}-{name}-{form}"
            yield pytest.param(operator, name, form, id=title)


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "dtype", "form"), selected())
@pytest.mark.parametrize("dynamic", [False, True] if FULL else [False])
def test_equals_eager(operator, dtype, form, dynamic):
    if not opinfo.supports(operator, dtype, form):
        pytest.skip("no such kernel in PyTorch")
    limit = 16 if FULL else 2
    outcome = opinfo.check(operator, opinfo.DTYPES[dtype], limit, dynamic, form)
    assert not outcome.failures, "\n".join(outcome.failures)
    if outcome.known:
        pytest.xfail("PyTorch's own trace: " + outcome.known[0])


def test_a_sample_passes_every_argument_on():
    x, y, z, other = torch.ones(4).unbind()
    seen = []

    def call(*args, **kwargs):
        seen.append((args, kwargs))
        return {"first": args[0][0]}, (kwargs["z"], 3)

    item = Call([x, None, "mean"], ((y, 2.5), torch.int8), {"dim": [0, -1], "z": z})
    sample = as_sample(call, item)
    assert list(map(id, sample.tensors)) == [id(x), id(y), id(z)]
    # Tensors are compared by identity first.
    assert sample.function(other, y, z) == [other, z]
    given = ([other, None, "mean"], (y, 2.5), torch.int8), {"dim": [0, -1], "z": z}
    assert seen == [given]
