"""Caches and queries of latent attention equal loops in float64, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both
from latent_reference import rms, rope


def near(x):
    """Compares with tolerances for the roundings of integers and of low precision."""
    return {} if x.dtype == torch.float32 else {"atol": 1, "rtol": 2e-2}


def stored(values, scale):
    return values if scale is None else (values * scale).round().clamp(-128, 127)


def place(cache, slot, row, blocked):
    """Writes a row of a head to its slot, by a loop over elements."""
    size, width = cache.shape[1], cache.shape[3]
    block, line = divmod(slot, size)
    if not blocked:
        cache[block, line, 0] = row
        return
    last = 32 if cache.dtype == torch.int8 else 16
    flat = cache[block].view(-1)
    for element in range(width):
        part, within = divmod(element, last)
        flat[(part * size + line) * last + within] = row[element]


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("mode", ["PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"])
def test_caches_of_pages(mode, quantised) -> None:
    batch, length, rank, rotary, size = 2, 3, 64, 32, 2
    kv, gamma = torch.randn(batch, 1, length, rank + rotary), torch.rand(rank)
    angle = torch.randn(batch, 1, length, rotary)
    kind = torch.int8 if quantised else torch.float32
    caches = [torch.zeros(6, size, 1, n, dtype=kind) for n in (rotary, rank)]
    scales = [torch.rand(n) * 40 if quantised else None for n in (rotary, rank)]
    pages = "BLK" in mode
    index = torch.tensor([4, 0, 10, -1] if pages else [0, 5, -1, 3, 7, 2])
    found = both(
        lambda kv, g, c, s, i, a, b: torch_npu.npu_kv_rmsnorm_rope_cache(
            kv,
            g,
            c,
            s,
            i,
            a,
            b,
            k_rope_scale=scales[0],
            c_kv_scale=scales[1],
            cache_mode=mode,
            is_output_kv=True,
        ),
        *(kv, gamma, angle.cos(), angle.sin(), index, *caches),
        **near(kv),
    )
    normed = rms(kv[..., :rank], gamma)
    rotated = rope(kv[..., rank:], angle.cos(), angle.sin())
    for cache, part, again, scale, out in zip(
        caches, (rotated, normed), found[:2], scales, found[2:]
    ):
        torch.testing.assert_close(out.double(), part, atol=1e-5, rtol=1e-5)
        wanted = torch.zeros_like(cache)
        for token in range(batch * length):
            b, s = divmod(token, length)
            slot = int(index[b * 2 + s // size] if pages else index[token])
            if slot < 0:
                continue
            slot = slot // size * size + s % size if pages else slot
            place(wanted, slot, stored(part[b, 0, s], scale).to(kind), "NZ" in mode)
        assert torch.equal(cache, again)
        close = {"atol": 1, "rtol": 0} if quantised else {"atol": 1e-5, "rtol": 1e-5}
        torch.testing.assert_close(cache, wanted, **close)


HE, HCQ, N, D, DR, HCKV = 48, 32, 3, 8, 32, 64


def prolog(
    weight_kind=torch.bfloat16, quantised=False, flat=False, kind=torch.bfloat16
):
    tokens = (6,) if flat else (2, 3)
    wide = N * (D + DR)
    uq_qr = torch.randn(HCQ, wide) / 5
    if weight_kind == torch.int8:
        uq_qr = torch.randint(-128, 128, (HCQ, wide))
    return {
        "token_x": torch.randn(*tokens, HE, dtype=kind),
        "weight_dq": (torch.randn(HE, HCQ) / 7).to(kind),
        "weight_uq_qr": uq_qr.to(weight_kind),
        "weight_uk": (torch.randn(N, D, HCKV) / 3).to(kind),
        "weight_dkv_kr": (torch.randn(HE, HCKV + DR) / 7).to(kind),
        "rmsnorm_gamma_cq": torch.rand(HCQ).to(kind),
        "rmsnorm_gamma_ckv": torch.rand(HCKV).to(kind),
        "rope_sin": torch.rand(*tokens, DR).to(kind),
        "rope_cos": torch.rand(*tokens, DR).to(kind),
        "cache_index": torch.tensor([0, 5, 9, 3, 7, 2]).reshape(tokens),
        "kv_cache": torch.zeros(5, 2, 1, HCKV, dtype=torch.int8 if quantised else kind),
        "kr_cache": torch.zeros(5, 2, 1, DR, dtype=torch.int8 if quantised else kind),
    }


@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("scaled", ["none", "weight", "caches"])
def test_prolog(scaled, flat, mode) -> None:
    whole, quantised = scaled != "none", scaled == "caches"
    given = prolog(torch.int8 if whole else torch.bfloat16, quantised, flat)
    options = {}
    if whole:
        options["dequant_scale_w_uq_qr"] = torch.rand(1, N * (D + DR)) / 300
        options["smooth_scales_cq"] = torch.rand(1, HCQ) + 0.5
    if quantised:
        options["quant_scale_ckv"] = torch.rand(1, HCKV) * 30
        options["quant_scale_ckr"] = torch.rand(1, DR) * 30
    names = list(given)
    query, rotary, kv, kr = both(
        lambda *a: torch_npu.npu_mla_prolog(
            **dict(zip(names, a)), **options, cache_mode=mode
        ),
        *given.values(),
        **near(given["token_x"]),
    )
    x = given["token_x"].double().reshape(-1, HE)
    cos, sin = (given[n].double().reshape(-1, DR) for n in ("rope_cos", "rope_sin"))
    c = rms(x @ given["weight_dq"].double(), given["rmsnorm_gamma_cq"])
    up = given["weight_uq_qr"].double()
    if whole:  # quantising c changes it little
        c = c * options["smooth_scales_cq"]
        up = up * options["dequant_scale_w_uq_qr"]
    parts = (c @ up).unflatten(-1, (N, D + DR))
    wanted = torch.einsum("tnd,ndh->tnh", parts[..., :D], given["weight_uk"].double())
    close = {"atol": 0.1, "rtol": 3e-2}
    torch.testing.assert_close(query.double().reshape(-1, N, HCKV), wanted, **close)
    wanted = rope(parts[..., D:], cos.unsqueeze(1), sin.unsqueeze(1))
    torch.testing.assert_close(rotary.double().reshape(-1, N, DR), wanted, **close)
    assert query.shape[:-2] == rotary.shape[:-2] == given["token_x"].shape[:-1]
    latent = x @ given["weight_dkv_kr"].double()
    normed = rms(latent[:, :HCKV], given["rmsnorm_gamma_ckv"])
    for name, again, part in (
        ("kv_cache", kv, normed),
        ("kr_cache", kr, rope(latent[:, HCKV:], cos, sin)),
    ):
        scale = options.get(
            {"kv_cache": "quant_scale_ckv"}.get(name, "quant_scale_ckr")
        )
        wanted = torch.zeros_like(given[name])
        for token, slot in enumerate(given["cache_index"].flatten().tolist()):
            row = stored(part[token], None if scale is None else scale[0])
            place(wanted, slot, row.to(wanted.dtype), mode == "PA_NZ")
        assert torch.equal(given[name], again)
        close = {"atol": 3, "rtol": 2e-2} if quantised else {"atol": 5e-2, "rtol": 3e-2}
        torch.testing.assert_close(again, wanted, **close)


KV = torch.ones(1, 1, 1, 12)
CALL = (KV, torch.ones(8), KV[..., :4], KV[..., :4], torch.zeros(1, 1).long())
CACHES = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 8)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cache_mode": "PA_X"}, "cache_mode must be one of .*, got 'PA_X'"),
        ({"k_rope_scale": torch.ones(4)}, "must both be given, or none"),
        ({"c_kv_offset": torch.ones(8)}, "c_kv_offset must be None"),
        (
            {"k_rope_scale": torch.ones(3), "c_kv_scale": torch.ones(8)},
            r"the scale of k_cache must have shape \(4,\), got \(3,\)",
        ),
        (
            {"k_rope_scale": torch.ones(4), "c_kv_scale": torch.ones(8)},
            "k_cache must be int8, got torch.float32",
        ),
        ({"cache_mode": "PA_BLK_BNSD"}, r"index must have shape \(1,\)"),
    ],
)
def test_caches_that_do_not_fit(options, text) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_kv_rmsnorm_rope_cache(*CALL, *CACHES, **options)


def test_rows_that_blocks_do_not_hold() -> None:
    caches = torch.zeros(2, 2, 1, 4), torch.zeros(2, 2, 1, 8)
    with pytest.raises(RuntimeError, match="rows of a multiple of 16"):
        torch_npu.npu_kv_rmsnorm_rope_cache(
            *CALL[:4], torch.zeros(1).long(), *caches, cache_mode="PA_NZ"
        )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cache_mode": "PA_BLK"}, "cache_mode must be PA_BSND or PA_NZ, got 'PA_BLK'"),
        ({"dequant_scale_x": torch.ones(6, 1)}, "dequant_scale_x must be None"),
        ({"weight_uk": torch.ones(3, 4)}, "weight_uk must have 3 dimensions"),
        ({"weight_dq": torch.ones(5, HCQ)}, r"weight_dq must have shape \(48, 32\)"),
        (
            {"smooth_scales_cq": torch.ones(1, HCQ)},
            "smooth_scales_cq must be None for weight_uq_qr of torch.bfloat16",
        ),
        (
            {"quant_scale_ckv": torch.ones(1, HCKV)},
            "kv_cache_quant_mode 2 does not go with weight_quant_mode 0",
        ),
        ({"cache_index": torch.zeros(2, 3)}, "cache_index must be int32, int64"),
        (
            {"weight_uq_qr": torch.ones(HCQ, N * (D + DR), dtype=torch.int8)},
            "dequant_scale_w_uq_qr is needed for weight_uq_qr of torch.int8",
        ),
        (
            {"kv_cache": torch.zeros(5, 2, 1, 9, dtype=torch.bfloat16)},
            "kv_cache must have 4 dimensions, the last of 64",
        ),
    ],
)
def test_prologs_that_do_not_fit(change, text) -> None:
    with pytest.raises(RuntimeError, match=f"npu_mla_prolog: .*{text}"):
        torch_npu.npu_mla_prolog(**prolog() | change)
