"""npu_fusion_attention_v2 equals a loop in float64: rotary parts, and all ways to add biases."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

B, N, KV, S, T, D, R, V = 2, 4, 2, 5, 7, 8, 4, 6
SCALE = 0.3
ORDERS = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3)}


def reference(q, k, v, bias=None, scaled=0.0):
    """`bias` is added after the scale, `scaled` before it."""
    k, v = (t.double().repeat_interleave(N // KV, 1) for t in (k, v))
    scores = (q.double() @ k.transpose(-1, -2) + scaled) * SCALE
    scores = scores if bias is None else scores + bias
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "TND"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rotary_parts(dtype, layout) -> None:
    q, k = (torch.randn(B, n, s, D + R).to(dtype) for n, s in ((N, S), (KV, T)))
    v = torch.randn(B, KV, T, V).to(dtype)
    wanted = reference(q, k, v)
    more = {}
    if layout == "TND":
        given = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
        wanted = wanted.transpose(1, 2).flatten(0, 1)
        more = {"actual_seq_qlen": [S, 2 * S], "actual_seq_kvlen": [T, 2 * T]}
    else:
        given = [t.permute(ORDERS[layout]) for t in (q, k, v)]
        wanted = wanted.permute(ORDERS[layout])
    query, key, value = (t.contiguous() for t in given)
    parts = [p.contiguous() for t in (query, key) for p in t.split([D, R], -1)]

    def function(query, query_rope, key, key_rope, value):
        return torch_npu.npu_fusion_attention_v2(
            query,
            key,
            value,
            N,
            layout,
            query_rope=query_rope,
            key_rope=key_rope,
            scale=SCALE,
            **more,
        )[0]

    close = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for run in (function, compiled(function)):
        found = run(*parts, value)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, atol=close, rtol=close)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_biases(kind, each) -> None:
    q, k = torch.randn(B, N, S, D), torch.randn(B, KV, T, D)
    v = torch.randn(B, KV, T, V)
    more = {}
    if kind < 2:
        pse = torch.randn(B if each else 1, N, S, T)
        wanted = reference(q, k, v, *((pse.double(),) if kind == 0 else (None, pse)))
    else:
        pse = torch.rand(B, N) if each else torch.rand(N)
        more = {"q_start_idx": [3], "kv_start_idx": [1]}
        apart = (torch.arange(S)[:, None] + 3 - torch.arange(T) - 1).abs().double()
        apart = apart.sqrt() if kind == 3 else apart
        bias = -apart * pse.double().reshape(-1, N, 1, 1)
        wanted = reference(q, k, v, bias)
    found = torch_npu.npu_fusion_attention_v2(
        *(q, k, v, N, "BNSD"), pse=pse, scale=SCALE, pse_type=kind, **more
    )
    torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)
    assert found[4:] == (0, 0, 0)


def test_dropouts_are_those_of_the_first_version() -> None:
    parts = [torch.randn(B, N, S, D) for _ in range(3)]
    found, wanted = (
        operator(*parts, N, "BNSD", keep_prob=0.6, seed=7, offset=2)
        for operator in (
            torch_npu.npu_fusion_attention_v2,
            torch_npu.npu_fusion_attention,
        )
    )
    assert torch.equal(found[0], wanted[0]) and found[4:] == wanted[4:]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pse_type": 4}, "pse_type must be from 0 to 3, got 4"),
        ({"q_start_idx": [3]}, "q_start_idx is for pse_type 2 and 3, not 1"),
        ({"pse_type": 2, "kv_start_idx": [3, 4]}, "kv_start_idx must have one number"),
        (
            {"pse_type": 2, "pse": torch.ones(3)},
            "pse must be .4,. or .2, 4. in pse_type",
        ),
        ({"query_rope": torch.ones(B, N, S, R)}, "must both be given, or none"),
        (
            {
                "input_layout": "BSH",
                "query_rope": torch.ones(B, N, S, R),
                "key_rope": torch.ones(B, N, S, R),
            },
            "query_rope needs the layout BSND, BNSD or TND, not BSH",
        ),
    ],
)
def test_errors(change, text) -> None:
    x = torch.ones(B, N, S, D)
    given = {"head_num": N, "input_layout": "BNSD"} | change
    with pytest.raises(RuntimeError, match=f"npu_fusion_attention_v2: .*{text}"):
        torch_npu.npu_fusion_attention_v2(x, x, x, **given)
    with pytest.raises(NotImplementedError, match="padding_mask is not supported"):
        torch_npu.npu_fusion_attention_v2(x, x, x, N, "BNSD", padding_mask=x)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "TND"])
def test_another_number_of_heads(layout) -> None:
    query = torch.randn(2, 4, 3, 8)[0] if layout == "TND" else torch.randn(2, 4, 3, 8)
    heads = query.shape[layout.index("N")]
    for name in ("npu_fusion_attention", "npu_fusion_attention_v2"):
        text = f"{name}: head_num must be {heads} as query has, got 9"
        with pytest.raises(RuntimeError, match=text):
            getattr(torch_npu, name)(query, query, query, 9, layout)
    if layout != "TND":
        text = f"num_heads must be {heads} as query has, got 9"
        with pytest.raises(ValueError, match=text):
            torch_npu.npu_fused_infer_attention_score(
                query, query, query, num_heads=9, input_layout=layout
            )
