"""npu_ring_attention_update against float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled


def part(scores: torch.Tensor, values: torch.Tensor):
    """The attention (n, s, d), largest scores and sums (n, s) of some keys."""
    top = scores.amax(-1)
    weights = torch.exp(scores - top.unsqueeze(-1))
    out = weights @ values / weights.sum(-1, keepdim=True)
    return out, top, weights.sum(-1)


@pytest.mark.parametrize("layout", ["SBH", "TND"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_two_parts(kind, layout) -> None:
    torch.manual_seed(0)
    scores, values = torch.randn(2, 3, 9).double() * 3, torch.randn(2, 9, 4).double()
    wanted = part(scores, values)
    given = []
    for keys in (slice(0, 5), slice(5, 9)):
        out, *tables = part(scores[..., keys], values[:, keys])
        rows = out.transpose(0, 1)
        if layout == "SBH":
            rows = rows.flatten(1).unsqueeze(1)
            tables = [t.unsqueeze(0) for t in tables]
        else:
            tables = [t.t() for t in tables]
        wide = [t.float().unsqueeze(-1).expand(*t.shape, 8) for t in tables]
        given += [rows.to(kind), *wide]
    options = {"input_layout": layout}

    def join(*given):
        return torch_npu.npu_ring_attention_update(*given, **options)

    for function in (join, compiled(join)):
        out, top, total = function(*given)
        assert out.dtype == kind and out.shape == given[0].shape
        rows = out.double().reshape(3, 2, 4).transpose(0, 1)
        near = 1e-5 if kind == torch.float32 else 2e-3
        torch.testing.assert_close(rows, wanted[0], rtol=near, atol=near)
        for found, other in ((top, wanted[1]), (total, wanted[2])):
            table = found[..., 7].double()
            table = table[0] if layout == "SBH" else table.t()
            torch.testing.assert_close(table, other, rtol=1e-5, atol=1e-5)
