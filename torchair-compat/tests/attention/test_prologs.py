"""The versions of npu_mla_prolog equal loops in float64, for each way to quantise and to
store, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both
from latent_reference import rms, rope
from pictures import compiled
from small_numbers import MxReference, hifloat8_values, values_of

HE, HCQ, N, D, DR, HCKV, TILE = 48, 32, 3, 8, 16, 64, 16
BATCH, LENGTH, SIZE = 2, 3, 4
BF16, I8, F8 = torch.bfloat16, torch.int8, torch.float8_e4m3fn
MODES = ["PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"]
# weight_quant_mode and kv_cache_quant_mode.
QUANTISED = [(0, 0), (1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (2, 3), (4, 1), (4, 3)]
QUANTISED += [(3, 0), (3, 1), (3, 3)]  # MX blocks
QUANTISED += [(5, 0), (5, 1), (5, 3)]  # bytes of hifloat8


def few(shape, kind):
    """Random values, as the dtype has them, and the scale that makes them small."""
    if kind == torch.uint8:
        grid = torch.from_numpy(hifloat8_values())
        codes = torch.nonzero((grid > 0.1) & (grid < 100)).flatten()
        chosen = codes[torch.randint(len(codes), shape)]
        return (chosen + 128 * torch.randint(2, shape)).to(kind)
    wide = torch.randint(-100, 100, shape).float()
    return wide.to(kind)


def wide_of(values):
    """The f64 values of elements; uint8 holds hifloat8, negative numbers from 128 on."""
    if values.dtype != torch.uint8:
        return values.float().double()
    grid = torch.from_numpy(hifloat8_values())[(values & 127).long()].double()
    return torch.where(values > 128, -grid, grid)


def in_hifloat8(c):
    """Rows as hifloat8 with a scale for each row has them. Halves go away from zero."""
    grid = torch.from_numpy(hifloat8_values()[:111]).double().sort().values
    scale = c.abs().amax(-1, keepdim=True) / 32768
    wide = (c / scale).abs()
    above = torch.searchsorted(grid, wide).clamp(1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    return torch.where(wide * 2 >= low + high, high, low) * c.sign() * scale


def arguments(weights, caches, mode, flat):
    kind = {3: F8, 4: F8, 5: torch.uint8}.get(weights, I8)
    tokens = (BATCH * LENGTH,) if flat else (BATCH, LENGTH)
    wide = N * (D + DR)
    down = weights >= 2
    he = 64 if weights == 3 else HE

    def floats(*shape):
        return (torch.randn(*shape) / shape[0] ** 0.5).to(BF16)

    def weight(shape, small):
        return few(shape, kind) if small else floats(*shape)

    given = {
        "token_x": few((*tokens, he), kind)
        if down
        else torch.randn(*tokens, he).to(BF16),
        "weight_dq": weight((he, HCQ), down),
        "weight_uq_qr": weight((HCQ, wide), weights >= 1),
        "weight_uk": floats(N, D, HCKV),
        "weight_dkv_kr": weight((he, HCKV + DR), down),
        "rmsnorm_gamma_cq": torch.rand(HCQ).to(BF16),
        "rmsnorm_gamma_ckv": torch.rand(HCKV).to(BF16),
        "rope_sin": torch.rand(*tokens, DR).to(BF16),
        "rope_cos": torch.rand(*tokens, DR).to(BF16),
    }
    if down:
        rows = BATCH * LENGTH
        given["dequant_scale_x"] = torch.rand(rows, 1) / 50 + 0.01
        given["dequant_scale_w_dq"] = torch.rand(1, HCQ) / 500 + 0.001
        given["dequant_scale_w_dkv_kr"] = torch.rand(1, HCKV + DR) / 500 + 0.001
    if weights >= 1:
        given["dequant_scale_w_uq_qr"] = torch.rand(1, wide) / 200
        given["smooth_scales_cq"] = torch.rand(1, HCQ) + 0.5
    if weights == 3:
        del given["smooth_scales_cq"]
        # Numbers of float8_e8m0fnu, of k / 32 blocks for each row and each column.
        for what, shape, middle in (
            ("x", (BATCH * LENGTH, he // 32), 121),
            ("w_dq", (HCQ, he // 32), 117),
            ("w_uq_qr", (wide, HCQ // 32), 119),
            ("w_dkv_kr", (HCKV + DR, he // 32), 117),
        ):
            codes = torch.randint(middle - 1, middle + 2, shape, dtype=torch.uint8)
            given[f"dequant_scale_{what}"] = codes
    if caches in (1, 2):
        size = (1,) if caches == 1 else (1, HCKV)
        given["quant_scale_ckv"] = torch.rand(size) * 20 + 5
    if caches == 2:
        given["quant_scale_ckr"] = torch.rand(1, DR) * 20 + 5
    if caches == 3:
        given["k_nope_clip_alpha"] = torch.tensor([0.9])
    row = HCKV + 2 * DR + HCKV // TILE * 4 if caches == 3 else HCKV
    places = tokens if mode in ("BSND", "TND") else (7, SIZE)
    cache_kind = kind if caches else BF16
    kr_kind = I8 if caches == 2 else BF16
    given["kv_cache"] = torch.zeros(*places, 1, row).to(cache_kind)
    given["kr_cache"] = torch.zeros(*places, 1, DR).to(kr_kind)
    if mode in ("PA_BSND", "PA_NZ"):
        given["cache_index"] = torch.tensor([3, 9, 4, 17, 26, 5]).reshape(tokens)
    elif mode.startswith("PA_BLK"):
        # Sequences of 1 and 5 tokens without a batch: pages of one and of two blocks.
        index = [4, 2, 6] if flat else [[4], [2]]
        given["cache_index"] = torch.tensor(index)
        if flat:
            given["actual_seq_len"] = torch.tensor([1, 6], dtype=torch.int32)
    return given


def slots(given, mode, flat):
    """The block and the row of each token."""
    if mode in ("BSND", "TND"):
        return [divmod(t, LENGTH) if mode == "BSND" else (t, 0) for t in range(6)]
    if mode in ("PA_BSND", "PA_NZ"):
        return [divmod(int(slot), SIZE) for slot in given["cache_index"].flatten()]
    if flat:
        return [(4, 0), (2, 0), (2, 1), (2, 2), (2, 3), (6, 0)]
    return [(4, 0), (4, 1), (4, 2), (2, 0), (2, 1), (2, 2)]


def restored(given, name):
    """An operand as float64, times its scales."""
    wide = wide_of(given[name])
    scale = {
        "token_x": given.get("dequant_scale_x"),
        "weight_dq": given.get("dequant_scale_w_dq"),
        "weight_uq_qr": given.get("dequant_scale_w_uq_qr"),
        "weight_dkv_kr": given.get("dequant_scale_w_dkv_kr"),
    }.get(name)
    wide = wide.reshape(-1, wide.shape[-1])
    if scale is None or scale.dtype != torch.uint8:
        return wide if scale is None else wide * scale.double()
    factors = (2.0 ** (scale.double() - 127)).repeat_interleave(32, 1)
    return wide * (factors if name == "token_x" else factors.t())


def in_blocks(c):
    """Rows as float8_e4m3fn in MX blocks of 32 has them."""
    codes, scales = MxReference("float8_e4m3fn").rows(c)
    grid = values_of("float8_e4m3fn")
    values = torch.from_numpy(grid[codes & 127]) * torch.from_numpy(
        1 - 2 * (codes >> 7)
    )
    factors = 2.0 ** (torch.from_numpy(scales).double() - 127)
    return values * factors.repeat_interleave(32, 1)


def reference(given, alpha, beta):
    """c, the queries, their rotary parts, and the rows of both caches."""
    x = restored(given, "token_x")
    c = rms(x @ restored(given, "weight_dq"), given["rmsnorm_gamma_cq"]) * alpha
    smooth = given.get("smooth_scales_cq")
    c = c if smooth is None else c * smooth.double()
    scale = given.get("dequant_scale_x")
    c = in_blocks(c) if scale is not None and scale.dtype == torch.uint8 else c
    c = in_hifloat8(c) if given["weight_dq"].dtype == torch.uint8 else c
    parts = (c @ restored(given, "weight_uq_qr")).unflatten(-1, (N, D + DR))
    query = torch.einsum("tnd,ndh->tnh", parts[..., :D], given["weight_uk"].double())
    cos, sin = (given[n].double().reshape(-1, DR) for n in ("rope_cos", "rope_sin"))
    rotary = rope(parts[..., D:], cos.unsqueeze(1), sin.unsqueeze(1))
    latent = x @ restored(given, "weight_dkv_kr")
    own = rms(latent[:, :HCKV], given["rmsnorm_gamma_ckv"]) * beta
    return c, query, rotary, own, rope(latent[:, HCKV:], cos, sin)


def row_of(cache, place, width, nz):
    """A row of a cache, whose memory may be in blocks."""
    block, line = place
    if not nz:
        return cache[block, line, 0] if cache.dim() == 4 else cache[block, 0]
    last = 32 if cache.element_size() == 1 else 16
    parts = cache[block].reshape(-1).reshape(width // last, cache.shape[1], last)
    return parts[:, line].reshape(width)


def dequantised(row, kind):
    """The elements, and the rotary elements, of a row of bytes."""
    data = row.view(I8)
    elements = wide_of(data[:HCKV].view(kind)).float()
    rotary = data[HCKV : HCKV + 2 * DR].clone().view(BF16).float()
    scales = data[HCKV + 2 * DR :].clone().view(torch.float32)
    return (elements.unflatten(0, (-1, TILE)) * scales.unsqueeze(-1)).flatten(), rotary


def check(given, found, caches, mode, flat, alpha=1.0, beta=1.0) -> None:
    c, query, rotary, own, turned = reference(given, alpha, beta)
    close = {"atol": 0.15, "rtol": 0.05}
    # A large hifloat8 has one bit behind the leading one, a smaller one two or three.
    coarse = 0.26 if given["weight_dq"].dtype == torch.uint8 else None
    got = wide_of(found[0]).reshape(-1, N, HCKV)
    rope_got = found[1].double().reshape(-1, N, DR)
    if caches == 1:
        scales = found[2].double()
        got = got * scales
        rope_got = rope_got * scales / given["quant_scale_ckv"].double()
    rtol = (coarse if caches == 1 else None) or close["rtol"]
    torch.testing.assert_close(got, query, atol=close["atol"], rtol=rtol)
    torch.testing.assert_close(rope_got, rotary, **close)
    if found[3].numel():
        norm = wide_of(found[3]).reshape(-1, HCQ)
        if found[4].dtype == torch.uint8:
            assert found[4].shape == (BATCH * LENGTH, HCQ // 32)
            norm = norm * (2.0 ** (found[4].double() - 127)).repeat_interleave(32, 1)
        elif found[4].numel():
            norm = norm * found[4].double()
        torch.testing.assert_close(norm, c, **close)
    nz = mode.endswith("NZ")
    for token, place in enumerate(slots(given, mode, flat)):
        row = row_of(given["kv_cache"], place, given["kv_cache"].shape[-1], nz)
        if caches == 3:
            elements, bytes_ = dequantised(row, row.dtype)
            tiles = own[token].unflatten(0, (-1, TILE))
            most = tiles.abs().amax(-1, keepdim=True) * 0.9
            clipped = tiles.clamp(-most * 1.01, most * 1.01).flatten()
            rtol = coarse or 0.07
            torch.testing.assert_close(elements.double(), clipped, atol=0.1, rtol=rtol)
            torch.testing.assert_close(bytes_.double(), turned[token], **close)
            continue
        scale = given.get("quant_scale_ckv")
        wanted = own[token]
        wide = wide_of(row)
        wide = wide if scale is None else wide / scale[0].double()
        torch.testing.assert_close(wide, wanted, atol=0.12, rtol=coarse or 0.07)
        row = row_of(given["kr_cache"], place, DR, nz and caches != 2).double()
        scale = given.get("quant_scale_ckr")
        row = row if scale is None else row / scale[0].double()
        torch.testing.assert_close(row, turned[token], atol=0.12, rtol=0.05)


def typed(weights, caches):
    """The arguments that say which operands are hifloat8."""
    names = ("token_x", "weight_dq", "weight_uq_qr", "weight_dkv_kr")
    names = (*names, *(("kv_cache",) if caches else ())) if weights == 5 else ()
    return {f"{name}_dtype": torch_npu.hifloat8 for name in names}


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("weights", "caches"), QUANTISED)
def test_third_version(weights, caches, mode, flat) -> None:
    if (mode == "TND") != flat and mode in ("BSND", "TND"):
        pytest.skip("BSND and TND belong to one kind of token_x")
    if mode.endswith("NZ") and caches in (2, 3):
        pytest.skip("rows of 16 rotary bytes, or of other dtypes, are no blocks of 32")
    given = arguments(weights, caches, mode, flat)
    settings = {
        "cache_mode": mode,
        "weight_quant_mode": weights,
        "kv_cache_quant_mode": caches,
        "query_quant_mode": int(caches == 1),
        "ckvkr_repo_mode": int(caches == 3),
        "quant_scale_repo_mode": int(caches == 3),
        "tile_size": TILE,
        "query_norm_flag": True,
        "qc_qr_scale": 1.5,
        "kc_scale": 0.5,
        **typed(weights, caches),
    }
    first = {name: value.clone() for name, value in given.items()}
    found = torch_npu.npu_mla_prolog_v3(**given, **settings)
    check(given, found, caches, mode, flat, 1.5, 0.5)
    whole = torch_npu.npu_mla_prolog_v3_functional(**first, **settings)
    named = given["kv_cache"], given["kr_cache"]
    for one, other in zip(whole, (*found, *named)):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    assert not first["kv_cache"].float().any()
    if mode in ("PA_BSND", "TND") and weights not in (3, 4, 5):
        names = list(first)
        both(
            lambda *t: torch_npu.npu_mla_prolog_v3(**dict(zip(names, t)), **settings),
            *first.values(),
            atol=1.5,
            rtol=0.05,
        )


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("weights", "caches"), [(0, 0), (1, 2), (2, 0), (2, 1)])
def test_second_version(weights, caches, flat) -> None:
    given = arguments(weights, caches, "PA_BSND", flat)
    query, rotary, kv, kr, scales = torch_npu.npu_mla_prolog_v2(**given)
    assert torch.equal(kv, given["kv_cache"]) and torch.equal(kr, given["kr_cache"])
    assert scales.shape == ((BATCH * LENGTH, N, 1) if caches == 1 else (1,))
    nothing = torch.zeros(0)
    found = query, rotary, scales, nothing, nothing
    check(given, found, caches, "PA_BSND", flat)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"weight_quant_mode": 7}, "no such weight_quant_mode: 7"),
        ({"kv_cache_quant_mode": 9}, "no such kv_cache_quant_mode: 9"),
        (
            {"query_quant_mode": 1},
            "query_quant_mode must be 0 in kv_cache_quant_mode 0",
        ),
        ({"ckvkr_repo_mode": 1}, "ckvkr_repo_mode must be 0 in kv_cache_quant_mode 0"),
        ({"cache_mode": "PA"}, "cache_mode must be one of .*, got 'PA'"),
        ({"cache_mode": "BSND"}, "cache_mode BSND: no cache_index"),
        ({"cache_mode": "TND"}, "cache_mode TND needs token_x of 2 dimensions"),
        ({"cache_index": None}, "cache_mode PA_BSND needs cache_index"),
        (
            {"dequant_scale_x": torch.ones(6, 1)},
            "dequant_scale_x must be None for weight_uq_qr of torch.bfloat16",
        ),
        ({"weight_dq": torch.ones(HE, 5)}, "weight_uq_qr must have shape"),
    ],
)
def test_errors(change, text) -> None:
    given = arguments(0, 0, "PA_BSND", False) | change
    with pytest.raises(RuntimeError, match=f"npu_mla_prolog_v3: .*{text}"):
        torch_npu.npu_mla_prolog_v3(**given)


@pytest.mark.parametrize("caches", [0, 1, 3])
@pytest.mark.parametrize("weights", [3, 5])
def test_small_floats_in_a_graph(weights, caches) -> None:
    """The codes of a norm may be other ones in a graph, whose sums have another order."""
    given = arguments(weights, caches, "PA_BSND", False)
    settings = {
        "weight_quant_mode": weights,
        "kv_cache_quant_mode": caches,
        "query_quant_mode": int(caches == 1),
        "ckvkr_repo_mode": int(caches == 3),
        "quant_scale_repo_mode": int(caches == 3),
        "tile_size": TILE,
        "query_norm_flag": True,
        **typed(weights, caches),
    }
    names = list(given)
    run = compiled(
        lambda *t: torch_npu.npu_mla_prolog_v3(**dict(zip(names, t)), **settings)
    )
    check(given, run(*given.values()), caches, "PA_BSND", False)


def test_wrong_blocks() -> None:
    given = arguments(3, 0, "PA_BSND", False) | {"weight_quant_mode": 3}
    for change, text in (
        ({"dequant_scale_x": torch.ones(6, 2)}, "dequant_scale_x must be uint8"),
        ({"dequant_scale_w_dq": None}, "dequant_scale_w_dq is needed"),
        (
            {"dequant_scale_w_dq": given["dequant_scale_w_dq"].t()},
            r"dequant_scale_w_dq must have shape \(32, 2\)",
        ),
        ({"smooth_scales_cq": torch.ones(1, HCQ)}, "smooth_scales_cq must be None"),
        (
            {
                "token_x": given["token_x"][..., :48],
                "weight_dq": given["weight_dq"][:48],
                "weight_dkv_kr": given["weight_dkv_kr"][:48],
            },
            "rows of token_x must have a multiple of 32, got 48",
        ),
        ({"kv_cache_quant_mode": 2}, "kv_cache_quant_mode 2 does not go with"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_mla_prolog_v3(**given | change)


def test_types_of_operands() -> None:
    given = arguments(5, 0, "PA_BSND", False) | {"weight_quant_mode": 5}
    right = typed(5, 0)
    for change, text in (
        (
            {"token_x_dtype": None},
            "token_x_dtype must be hifloat8 in weight_quant_mode",
        ),
        ({"token_x_dtype": 1}, "token_x_dtype must be hifloat8, got int8"),
        (
            {"kv_cache_dtype": torch_npu.hifloat8},
            "kv_cache_dtype must be None, got 290",
        ),
        ({"weight_dq": torch.ones(HE, HCQ)}, "weight_dq of hifloat8 must be"),
        ({"weight_quant_mode": 4}, "token_x_dtype must be None, got 290"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_mla_prolog_v3: .*{text}"):
            torch_npu.npu_mla_prolog_v3(**given | right | change)
