"""Results have eager's strides: expanded, overlapping, with gaps, of symbolic sizes."""

from __future__ import annotations

import pytest
import torch
from checking import check
from torch.utils import _pytree as tree

FUNCTIONS = {
    "expanded": lambda x: (x + 1)[:, None].expand(-1, x.shape[0], -1),
    "expanded in front": lambda x: (x[0] * 2).expand(x.shape[0], -1),
    "expanded twice": lambda x: (x + 1)[:, None, None].expand(-1, x.shape[0], 3, -1),
    "expanded to a number": lambda x: (x[:1] * 2).expand(4, -1),
    "expanded columns": lambda x: (x.sum(1, keepdim=True)).expand_as(x),
    "expanded and transposed": lambda x: (
        (x.t() + 1).contiguous().t()[:, None].expand(-1, x.shape[0], -1)
    ),
    "expanded, two results": lambda x: ((x[0] * 2).expand_as(x), x * 3),
    "overlapping": lambda x: torch.as_strided(x.roll(-1, 0), (3, 4), (2, 1)),
    "overlapping everywhere": lambda x: torch.as_strided(x * 2, (3, 2, 2), (1, 1, 2)),
    "overlapping with gaps": lambda x: torch.as_strided(x * 2, (2, 3), (4, 2)),
    "windows": lambda x: (x * 2).unfold(1, 3, 1),
    "windows of rows": lambda x: (x * 2).unfold(0, 2, 1).sum(1),
    "every other": lambda x: (x + 1)[:, ::2],
    "transposed": lambda x: (x + 1).t(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_are_those_of_eager(name, dynamic):
    function = FUNCTIONS[name]
    run = check(function, torch.randn(4, 6), dynamic=dynamic)
    for rows in (7, 3):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(run(x), function(x))
        results, wanted = run(x), function(x)
        for found, expected in zip(tuple(results), tuple(wanted)):
            assert found.stride() == expected.stride()


PARTS = {
    "whole": lambda x: x + 1,
    "columns": lambda x: (x + 1)[:, 1:4],
    "every other": lambda x: (x + 1)[:, ::2],
    "transposed": lambda x: (x + 1).t(),
    "of a sort": lambda x: x.sort(1)[0][:, :3],
    "of symbolic rows": lambda x: (x + 1)[1:, 2:5],
    "windows": lambda x: (x * 2).unfold(1, 3, 1),
}
EXPANSIONS = {
    "first column": lambda y, x: y[:, :1].expand_as(y),
    "first row": lambda y, x: y[:1].expand_as(y),
    "behind": lambda y, x: y[..., None].expand(*y.shape, 3),
    "in front": lambda y, x: y.expand(2, *y.shape),
    "in front, symbolic": lambda y, x: y.expand(x.shape[0], *y.shape),
    "twice": lambda y, x: y[:1, :, None].expand(
        y.shape[0], *y.shape[1:2], 3, *y.shape[2:]
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("expansion", EXPANSIONS)
def test_expanded_parts_have_the_strides_of_eager(expansion, dynamic):
    """A part has gaps, which only the call knows if sizes are symbolic, and the program
    returns neither these nor the expanded elements."""

    def function(x):
        parts = [part(x) for part in PARTS.values()]
        return parts, [
            EXPANSIONS[expansion](y, x)
            for y in parts
            if expansion != "twice" or y.dim() == 2
        ]

    run = torch.compile(function, backend="anabranch", fullgraph=True, dynamic=dynamic)
    for rows in (7, 3, 5):
        x = torch.randn(rows, 12)
        found, wanted = (tree.tree_leaves(f(x)) for f in (run, function))
        for result, expected in zip(found, wanted, strict=True):
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()
