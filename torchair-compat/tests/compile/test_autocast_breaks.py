"""Graph breaks inside torch.autocast("npu"): Dynamo enters the context again after them."""

from __future__ import annotations

import pytest
import torch

import torch_npu  # noqa: F401 - makes `npu` known
from pictures import compiled

linear = torch.nn.Linear(8, 8)


def amp(x):
    with torch.amp.autocast("npu", dtype=torch.bfloat16):
        y = linear(x)
        torch._dynamo.graph_break()
        return linear(y)


def module_amp(x):
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        y = linear(x)
        torch._dynamo.graph_break()
        return linear(y)


def nested(x):
    with torch.autocast("npu"):
        y = linear(x)
        torch._dynamo.graph_break()
        with torch.autocast(device_type="npu", enabled=False):
            y = linear(y.float())
            torch._dynamo.graph_break()
            y = linear(y)
        return linear(y)


@torch.autocast("npu", dtype=torch.bfloat16)
def decorated(x):
    y = linear(x)
    torch._dynamo.graph_break()
    return linear(y)


@pytest.mark.parametrize("function", [amp, module_amp, nested, decorated])
def test_breaks_inside_autocast(function) -> None:
    x = torch.randn(2, 8)
    with torch.no_grad():
        found, wanted = compiled(function, fullgraph=False)(x), function(x)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0.02)
    assert not torch.is_autocast_enabled("cpu")
