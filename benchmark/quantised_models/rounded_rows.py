"""Layers of torchao whose graph rounds each row to bytes. torchao has to be there."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from harness import Workload
from quantised_models.cases import add


def rounded_rows(count: int, width: int = 2048) -> Workload:
    """Four layers of torchao's Int8DynamicActivationIntxWeightConfig."""
    from torchao import quantization
    from torchao.quantization.granularity import PerGroup

    torch.manual_seed(0)
    layers = [nn.Linear(width, width, bias=False) for _ in range(4)]
    model = nn.Sequential(*layers).eval()
    kind = quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantization.quantize_(model, kind)
    return Workload(model, (torch.randn(count, width),))


def register() -> None:
    for count in (1, 32, 512):
        what = f"four layers of torchao's int8 by int4, {count} rows"
        add(f"rows-{count}", what, partial(rounded_rows, count))


register()
