"""Operators that copy or gather by index take indices of int32, and give int64's result."""

from __future__ import annotations

import pytest
import torch

import torch_npu  # noqa: F401 - widens indices
from pictures import compiled

SHAPE = (4, 6)
ROWS = torch.tensor([2, 0])
PLACES = torch.tensor([[1, 0, 3, 2, 1, 1], [0, 2, 2, 3, 0, 2]])
CALLS = {
    "gather": lambda x, s, wide: x.gather(0, wide(PLACES)),
    "torch.gather": lambda x, s, wide: torch.gather(x, dim=0, index=wide(PLACES)),
    "index_copy": lambda x, s, wide: x.index_copy(0, wide(ROWS), s),
    "index_copy_": lambda x, s, wide: x.clone().index_copy_(0, wide(ROWS), s),
    "torch.index_copy": lambda x, s, wide: torch.index_copy(x, 0, wide(ROWS), s),
    "index_fill_": lambda x, s, wide: x.clone().index_fill_(0, wide(ROWS), 3.0),
    "index_fill": lambda x, s, wide: x.index_fill(dim=0, index=wide(ROWS), value=3.0),
    "scatter_": lambda x, s, wide: x.clone().scatter_(0, wide(PLACES[:1]), s),
    "scatter_add": lambda x, s, wide: x.scatter_add(0, wide(PLACES), s),
    "scatter_reduce_": lambda x, s, wide: x.clone().scatter_reduce_(
        0, wide(PLACES), s, "amax"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_narrow_indices(name) -> None:
    x, source = torch.randn(SHAPE), torch.randn(2, SHAPE[1])
    wanted = CALLS[name](x, source, lambda index: index)

    def narrow(x, source):
        return CALLS[name](x, source, lambda index: index.to(torch.int32))

    for run in (narrow, compiled(narrow)):
        torch.testing.assert_close(run(x, source), wanted)


def test_other_dtypes_stay_errors() -> None:
    with pytest.raises((RuntimeError, IndexError), match="(?i)index"):
        torch.zeros(4).index_copy_(0, torch.tensor([1.0]), torch.ones(1))
