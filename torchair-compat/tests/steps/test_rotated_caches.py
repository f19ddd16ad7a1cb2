"""Operators that rotate queries and keys and fill caches equal loops in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

B, S, N, KV, D = 2, 3, 3, 2, 8
SPLITS = [N * D, KV * D, KV * D]
SLOTS = torch.tensor([0, 5, -1, 3, 7, 2])


def turned(x, cos, sin):
    left, right = x.double().chunk(2, -1)
    return x.double() * cos.double() + torch.cat([-right, left], -1) * sin.double()


def stored(values):
    return values.round().clamp(-128, 127)


def agrees(cache, wanted) -> None:
    """Rounding of a value between two integers may go either way."""
    assert cache.dtype == torch.int8
    assert (cache.double() - wanted).abs().max() <= 1
    assert (cache.double() != wanted).double().mean() < 0.03


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("mode", ["contiguous", "page"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotated_and_quantised(dtype, mode, integers) -> None:
    torch.manual_seed(0)
    cos, sin = (torch.randn(B, S, 1, D).to(dtype) for _ in range(2))
    scales = [torch.rand(KV, D) * 20 for _ in range(2)]
    offsets = [torch.randn(KV, D) * 3 for _ in range(2)]
    caches = [torch.randint(-9, 9, (B, 6, KV, D), dtype=torch.int8) for _ in range(2)]
    where = torch.tensor([1, 3]) if mode == "contiguous" else SLOTS
    told = {"cache_mode": mode, "kv_output": True, "size_splits": SPLITS}
    told |= {"offset_k": offsets[0], "offset_v": offsets[1], "indices": where}
    told |= {"scale_k": scales[0], "scale_v": scales[1]}
    if integers:
        x = torch.randint(-99, 99, (B, S, sum(SPLITS)), dtype=torch.int32)
        columns, rows = torch.rand(sum(SPLITS)) / 99, torch.rand(B * S)
        bias = torch.randint(-9, 9, (sum(SPLITS),), dtype=torch.int32)
        told |= {"weight_scale": columns, "activation_scale": rows, "bias": bias}
        factor = columns.double() * rows.double().reshape(B, S, 1)
        states, operator = (
            (x + bias).double() * factor,
            "npu_dequant_rope_quant_kvcache",
        )
    else:
        x = torch.randn(B, S, sum(SPLITS)).to(dtype)
        states, operator = x.double(), "npu_rope_quant_kvcache"
    query, key, value = (p.unflatten(-1, (-1, D)) for p in states.split(SPLITS, -1))
    query, key = turned(query, cos, sin), turned(key, cos, sin)
    wanted = [cache.double() for cache in caches]
    for cache, rows, scale, offset in zip(wanted, (key, value), scales, offsets):
        made = stored(rows * scale.double() + offset.double())
        for batch in range(B):
            for step in range(S):
                if mode == "contiguous":
                    cache[batch, int(where[batch]) + step] = made[batch, step]
                elif SLOTS[batch * S + step] >= 0:
                    slot = int(SLOTS[batch * S + step])
                    cache[slot // 6, slot % 6] = made[batch, step]

    def function(x, k_cache, v_cache):
        given = x, cos, sin, k_cache, v_cache
        return getattr(torch_npu, operator)(*given, **told)

    runs = [function] + ([compiled(function)] if dtype == torch.float16 else [])
    for run in runs:
        given = [cache.clone() for cache in caches]
        made = run(x, *given)
        for found, right in zip(made, (query, key, value)):
            assert found.dtype == dtype
            torch.testing.assert_close(found.double(), right, atol=3e-2, rtol=2e-2)
        for found, copy, right in zip(given, made[3:], wanted):
            assert torch.equal(found, copy)
            agrees(found, right)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normed_and_rotated(dtype, quantised) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(B * S, (N + 2 * KV) * D).to(dtype)
    gammas = [torch.randn(D).to(dtype) for _ in range(2)]
    cos, sin = (torch.randn(B * S, D).to(dtype) for _ in range(2))
    scales = [torch.rand(KV, D) / 9 + 0.05 for _ in range(2)]
    kind = torch.int8 if quantised else dtype
    caches = [torch.randint(-9, 9, (3, KV * D // 4, 4, 4)).to(kind) for _ in range(2)]
    told = {"qkv_size": [B, S, N + 2 * KV, D], "head_nums": [N, KV, KV]}
    told |= {"is_output_qkv": True}
    if quantised:
        told |= {"k_scale": scales[0], "v_scale": scales[1]}
    parts = qkv.double().unflatten(-1, (-1, D)).split([N, KV, KV], 1)
    normed = []
    for part, gamma in zip(parts, gammas):
        root = (part.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        rows = part / root * gamma.double()
        normed.append(turned(rows, cos[:, None], sin[:, None]))
    wanted = [cache.double() for cache in caches]
    for cache, rows, scale in zip(wanted, (normed[1], parts[2]), scales):
        made = stored(rows / scale.double()) if quantised else rows
        for token, slot in enumerate(SLOTS.tolist()):
            if slot >= 0:
                blocks = made[token].flatten().unflatten(0, (-1, 4))
                cache[slot // 4, :, slot % 4] = blocks

    def function(qkv, q_out, k_cache, v_cache):
        given = qkv, *gammas, cos, sin, SLOTS, q_out, k_cache, v_cache
        return torch_npu.npu_qkv_rms_norm_rope_cache(*given, **told)

    runs = [function] + ([compiled(function)] if dtype == torch.float16 else [])
    for run in runs:
        q_out, given = torch.zeros(B * S, N * D).to(dtype), [c.clone() for c in caches]
        made = run(qkv, q_out, *given)
        assert torch.equal(made[0], q_out)
        for found, right in zip(made, (*normed, parts[2])):
            close = {"atol": 5e-2, "rtol": 2e-2}
            torch.testing.assert_close(found.double(), right.flatten(1), **close)
        for found, right in zip(given, wanted):
            if quantised:
                agrees(found, right)
            else:
                torch.testing.assert_close(found.double(), right, **close)
    results = torch_npu.npu_qkv_rms_norm_rope_cache_functional(
        qkv, *gammas, cos, sin, SLOTS, torch.zeros_like(q_out), *caches, **told
    )
    for one, other in zip(results, (*made, q_out, *given)):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


def test_wrong_arguments() -> None:
    from operator_calls import CALLS

    for name, change, text in (
        ("npu_rope_quant_kvcache", {"quant_mode": 1}, "quant_mode must be 0, got 1"),
        (
            "npu_rope_quant_kvcache",
            {"cache_mode": "no"},
            "cache_mode must be contiguous",
        ),
        (
            "npu_rope_quant_kvcache",
            {"size_splits": [24, 16, 8]},
            "size_splits must split",
        ),
        (
            "npu_dequant_rope_quant_kvcache",
            {"weight_scale": None},
            "weight_scale is need",
        ),
        (
            "npu_qkv_rms_norm_rope_cache",
            {"cache_mode": "Norm"},
            "cache_mode must be PA_NZ",
        ),
        (
            "npu_qkv_rms_norm_rope_cache",
            {"head_nums": [2, 2, 2]},
            "head_nums must add up",
        ),
        (
            "npu_qkv_rms_norm_rope_cache",
            {"head_nums": [2, 3, 2]},
            "as many keys as values",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: .*{text}"):
            getattr(torch_npu, name)(**{**CALLS[name], **change})
