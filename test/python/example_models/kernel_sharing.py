"""Models that share kernels, and which of their kernels the cache had."""

from __future__ import annotations

import torch
from torch import nn

import anabranch
from anabranch.backend import anabranch as backend


def model(last: int) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, last)]
    return nn.Sequential(*layers).eval()


def compile_and_compare(module: nn.Module, seed: int = 0) -> list[bool]:
    """For each kernel whether the cache had it; None for a package that the cache had."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    x = torch.randn(24, 32)
    with torch.no_grad():
        compiled = torch.compile(
            module, backend=backend, dynamic=False, options={"watch": False}
        )
        found = compiled(x)
        torch.testing.assert_close(found, module(x))
    report = anabranch.last_report()
    assert report is not None
    return [kernel["found"] for kernel in report.get("kernels", [])]
