"""Padding by symbolic sizes is kernels' work, whatever its sign turns out to be."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import anabranch

rand = torch.rand
SIGNS = [(rand(n, m, 11),) for n, m in ((5, 4), (4, 7), (9, 9))]
MARGINS = [(rand(2, 3, n), rand(a, b)) for n, a, b in ((6, 2, 5), (6, 3, 2), (9, 4, 4))]
IMAGES = [
    (rand(2, 3, n, 5), rand(a, b)) for n, a, b in ((6, 2, 5), (6, 4, 2), (9, 5, 4))
]

CASES = {
    "to a multiple": (
        lambda x: F.pad(x, (0, 0, 0, -x.shape[1] % 8)),
        [(rand(2, n, 6),) for n in (5, 8, 13, 16)],
    ),
    "high": (lambda x: F.pad(x, (0, 0, 0, x.shape[0] - x.shape[1])), SIGNS),
    "low and high": (
        lambda x: F.pad(x, (x.shape[0] - x.shape[1], 2, 1, x.shape[0] - 5)),
        SIGNS,
    ),
    "a value": (
        lambda x, p: F.pad(x, (p.shape[0], p.shape[1] - 3), value=2.5) * 2,
        MARGINS,
    ),
    "reflect": (
        lambda x, p: F.pad(x, (p.shape[0], p.shape[1]), mode="reflect"),
        MARGINS,
    ),
    "replicate": (
        lambda x, p: F.pad(x, (p.shape[0], p.shape[1], 1, 2), mode="replicate"),
        IMAGES,
    ),
    "replicate and cut": (
        lambda x, p: F.pad(
            x, (p.shape[0] - 3, 1, -1, p.shape[0] - 3), mode="replicate"
        ),
        IMAGES,
    ),
    "circular": (lambda x, p: F.pad(x, (p.shape[0], 1), mode="circular"), MARGINS),
}


@pytest.mark.parametrize("name", CASES)
def test_padding_by_sizes(name) -> None:
    torch._dynamo.reset()
    function, calls = CASES[name]
    compiled = torch.compile(
        function, backend="anabranch", dynamic=True, fullgraph=True
    )
    for arguments in calls:
        expected, got = function(*arguments), compiled(*arguments)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert got.stride() == expected.stride()
    report = anabranch.last_report()
    assert not report["fallbacks"] and not report.get("eager")
