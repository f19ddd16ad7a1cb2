"""Graphs whose scales are float8_e8m0fnu between operators compile as a whole."""

from __future__ import annotations

import torch

import anabranch
import torch_npu
from pictures import compiled

E8M0 = torch.float8_e8m0fnu


def test_scales_are_bytes_inside_a_graph() -> None:
    def product(x, weight, scale):
        made, scales = torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)
        return torch_npu.npu_transpose_quant_batchmatmul(
            made,
            weight.view(torch.float8_e4m3fn),
            torch.bfloat16,
            x1_scale=scales.view(E8M0),
            x2_scale=scale.view(E8M0).transpose(1, 2).transpose(1, 2),
            group_sizes=(0, 0, 32),
            perm_x2=(0, 2, 1),
        )

    x = torch.randn(3, 2, 128).bfloat16()
    weight, scale = torch_npu.npu_dynamic_mx_quant(
        torch.randn(2, 5, 128).bfloat16(), dst_type=torch.float8_e4m3fn
    )
    arguments = (x, weight.view(torch.uint8), scale)
    wanted = product(*arguments)
    torch.testing.assert_close(compiled(product)(*arguments), wanted)
    assert anabranch.counters.eager_graphs == 0


def test_scales_that_leave_the_graph_keep_their_dtype() -> None:
    def quantise(x):
        _, scales = torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)
        seen = scales.view(E8M0)
        return seen.transpose(0, 1), seen.view(torch.uint8) + 1

    x = torch.randn(4, 64)
    for one, other in zip(compiled(quantise)(x), quantise(x)):
        assert one.dtype == other.dtype
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
