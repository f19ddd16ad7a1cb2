"""npu_multi_head_latent_attention against loops over tokens in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

F16, BF16 = torch.float16, torch.bfloat16
NEAR = {F16: {"atol": 5e-3, "rtol": 5e-3}, BF16: {"atol": 4e-2, "rtol": 2e-2}}
HEADS, D, R, SIZE = 4, 16, 8, 4
LENGTHS = [6, 3]
TABLE = torch.tensor([[3, 0], [1, -1]], dtype=torch.int32)


def operands(dtype=F16, kv_heads=1):
    """Rows that belong to no sequence are NaN."""
    q = [torch.randn(2, HEADS, n).to(dtype) for n in (D, R)]
    caches = [torch.randn(4, SIZE, kv_heads, n).to(dtype) for n in (D, R)]
    for cache in caches:
        cache[2] = cache[0, 2:] = cache[1, 3:] = float("nan")
    return (*q, *caches, TABLE)


def reference(q_nope, q_rope, ctkv, k_rope, table):
    query = torch.cat((q_nope, q_rope), -1).double()
    out = torch.zeros(q_nope.shape, dtype=torch.float64)
    lse = torch.zeros(2, HEADS, 1, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        latent, rope = (
            cache[table[row].long().clamp(min=0)].flatten(0, 1)[:length].double()
            for cache in (ctkv, k_rope)
        )
        for head in range(HEADS):
            group = head * ctkv.shape[2] // HEADS
            keys = torch.cat((latent, rope), -1)[:, group]
            scores = keys @ query[row, head] * 0.3
            out[row, head] = scores.softmax(0) @ latent[:, group]
            lse[row, head] = scores.logsumexp(0)
    return out, lse


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_one_token_of_each_sequence(dtype, kv_heads) -> None:
    given = operands(dtype, kv_heads)
    rest = LENGTHS, HEADS, 0.3, kv_heads

    def function(q_nope, q_rope, ctkv, k_rope, table):
        return torch_npu.atb.npu_multi_head_latent_attention(
            q_nope, q_rope, ctkv, k_rope, table, *rest, True, calc_type="calc_type_ring"
        )

    out, lse = both(function, *given, equal_nan=True, **NEAR[dtype])
    wanted = reference(*given)
    assert lse.dtype == out.dtype == dtype
    for found, right in zip((out, lse), wanted):
        torch.testing.assert_close(found.double(), right, **NEAR[dtype])
    alone = torch_npu.atb.npu_multi_head_latent_attention(*given, *rest)
    assert torch.equal(alone, out)
    into = torch.empty_like(out), torch.empty_like(lse)
    workspace = torch_npu.atb._npu_multi_head_latent_attention_get_workspace(
        *given, *rest, True, calc_type="calc_type_ring"
    )
    torch_npu.atb.npu_multi_head_latent_attention(
        *given, *rest, True, calc_type="calc_type_ring", workspace=workspace,
        output=into[0], lse=into[1],
    )  # fmt: skip
    assert torch.equal(into[0], out) and torch.equal(into[1], lse)
    torch_npu.atb.npu_multi_head_latent_attention(*given, *rest, output=into[0].zero_())
    assert torch.equal(into[0], out)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mask_type": "mask_type_spec"}, "mask_type must be one of"),
        ({"calc_type": "calc_type_spec"}, "calc_type must be one of"),
        ({"cache_mode": "nzcache"}, "cache_mode must be one of"),
        ({"mask": torch.ones(2, 2)}, "mask must be None"),
        ({"qseqlen": [1, 2]}, "qseqlen must be 1 for each of 2 sequences"),
        ({"kv_headnum": 2}, r"ctkv must be \(blocks, block_size, 2, 16\)"),
        ({"q_headnum": 2}, r"q_nope must have shape \(2, 2, 16\)"),
        ({"q_nope": torch.ones(2, HEADS, D)}, "q_nope must be float16, bfloat16"),
    ],
)
def test_wrong(change, text) -> None:
    names = "q_nope", "q_rope", "ctkv", "k_rope", "block_tables"
    right = dict(zip(names, operands()))
    more = {
        "context_lens": LENGTHS,
        "q_headnum": HEADS,
        "qk_scale": 0.3,
        "kv_headnum": 1,
    }
    with pytest.raises(RuntimeError, match=f"npu_multi_head_latent_attention: {text}"):
        torch_npu.atb.npu_multi_head_latent_attention(**{**right, **more, **change})


def test_sums_without_a_ring() -> None:
    with pytest.raises(RuntimeError, match="return_lse needs calc_type_ring"):
        torch_npu.atb.npu_multi_head_latent_attention(
            *operands(), LENGTHS, HEADS, 0.3, 1, True
        )
