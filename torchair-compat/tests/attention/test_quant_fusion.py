"""npu_quant_fusion_attention equals attention in float64 of the scaled blocks."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

B, N, S, T, D = 1, 2, 260, 300, 16
TYPES = [(torch.float8_e4m3fn, None), (torch.float8_e5m2, None), (torch.uint8, 290)]


def operands(dtype, number):
    torch.manual_seed(0)
    tensors = [torch.randn(B, N, s, D) for s in (S, T, T)]
    if number is None:
        small = [t.to(dtype) for t in tensors]
        values = [t.double() for t in (s.float() for s in small)]
    else:
        small = [torch_npu.npu_dtype_cast(t, number) for t in tensors]
        wide = (torch_npu.npu_dtype_cast(s, torch.float32, number) for s in small)
        values = [t.double() for t in wide]
    scales = [torch.rand(B, N, n, 1) + 0.5 for n in (3, 2, 2)]
    return small, values, scales


def wanted_of(values, scales):
    rows = [
        v * s.double().repeat_interleave(block, 2)[:, :, : v.shape[2]]
        for v, s, block in zip(values, scales, (128, 256, 256))
    ]
    scores = rows[0] @ rows[1].transpose(-1, -2) * 0.25
    return scores.softmax(-1) @ rows[2], scores.amax(-1)


@pytest.mark.parametrize(("dtype", "number"), TYPES)
@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
def test_values(dtype, number, layout) -> None:
    small, values, scales = operands(dtype, number)
    wanted, largest = wanted_of(values, scales)
    if layout == "BSND":
        small = [t.transpose(1, 2).contiguous() for t in small]
        wanted = wanted.transpose(1, 2)

    def function(q, k, v, a, b, c):
        told = {"d_scale_q": a, "d_scale_k": b, "d_scale_v": c, "query_dtype": number}
        attend = torch_npu.npu_quant_fusion_attention
        return attend(q, k, v, N, layout, scale=0.25, p_scale=torch.ones(1), **told)[:3]

    runs = (function, compiled(function)) if layout == "BNSD" else (function,)
    for run in runs:
        made, maxima, _ = run(*small, *scales)
        assert made.dtype == torch.float16
        torch.testing.assert_close(made.double(), wanted, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(
            maxima[..., 0].double(), largest, atol=1e-4, rtol=1e-4
        )


def test_wrong_arguments() -> None:
    small, _, (a, b, c) = operands(torch.float8_e4m3fn, None)
    right = {"input_layout": "BNSD", "d_scale_q": a, "d_scale_k": b, "d_scale_v": c}
    for change, text in (
        ({"input_layout": "TND"}, "input_layout must be BNSD or BSND, got 'TND'"),
        ({"d_scale_k": a}, "d_scale_k must have shape"),
        ({"d_scale_q": a.double()}, "d_scale_q must be float32"),
        ({"p_scale": torch.ones(2)}, "p_scale must have shape"),
        ({"query_dtype": 5}, "query_dtype must be float8_e4m3fn"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_quant_fusion_attention: .*{text}"):
            torch_npu.npu_quant_fusion_attention(*small, N, **{**right, **change})
