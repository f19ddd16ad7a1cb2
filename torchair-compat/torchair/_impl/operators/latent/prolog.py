"""npu_mla_prolog, npu_mla_prolog_v2 and npu_mla_prolog_v3.

After Ascend's API reference of torch_npu, pages of these names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check
from ..definition import npu_operator_of
from ..element_types import given_type
from .caches import MODES
from .steps import ALL, HIF8, MX, PLAIN, UP, Prolog

_OPERANDS = (
    "token_x",
    "weight_dq",
    "weight_uq_qr",
    "weight_uk",
    "weight_dkv_kr",
    "rmsnorm_gamma_cq",
    "rmsnorm_gamma_ckv",
    "rope_sin",
    "rope_cos",
)
_SCALES = ", ".join(
    f"Tensor? {name}=None"
    for name in (
        "dequant_scale_x",
        "dequant_scale_w_dq",
        "dequant_scale_w_uq_qr",
        "dequant_scale_w_dkv_kr",
        "quant_scale_ckv",
        "quant_scale_ckr",
        "smooth_scales_cq",
    )
)
_FIRST = ", ".join(f"Tensor {name}" for name in _OPERANDS)
_EPSILONS = "float rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05"
_CACHES = "Tensor(a!) kv_cache, Tensor(b!) kr_cache"
_COPIES = "Tensor kv_cache, Tensor kr_cache"
_SCHEMA = (
    f"({_FIRST}, Tensor cache_index, {_CACHES}, *, {_SCALES}, {_EPSILONS},"
    " str cache_mode='PA_BSND') -> "
)
_THIRD = (
    f", *, Tensor? cache_index=None, {_SCALES}, Tensor? actual_seq_len=None,"
    f" Tensor? k_nope_clip_alpha=None, {_EPSILONS}, str cache_mode='PA_BSND',"
    " bool query_norm_flag=False, int weight_quant_mode=0, int kv_cache_quant_mode=0,"
    " int query_quant_mode=0, int ckvkr_repo_mode=0, int quant_scale_repo_mode=0,"
    " int tile_size=128, float qc_qr_scale=1.0, float kc_scale=1.0,"
    " int? token_x_dtype=None, int? weight_dq_dtype=None, int? weight_uq_qr_dtype=None,"
    " int? weight_dkv_kr_dtype=None, int? kv_cache_dtype=None) -> "
)
_FIVE = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
# The operands of which an argument says that they hold hifloat8.
_TYPED = ("token_x", "weight_dq", "weight_uq_qr", "weight_dkv_kr", "kv_cache")


@npu_operator_of(f"{_SCHEMA}(Tensor, Tensor, Tensor, Tensor)")
def npu_mla_prolog(
    *operands: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The queries of latent attention, and the new rows of its two caches.

    With c = rms(x dq) and [q, r] = c uq_qr for each head: query = q uk and query_rope =
    rope(r). With [dkv, kr] = weight_dkv_kr: kv_cache gets rms(x dkv), and kr_cache gets
    rope(x kr). rope is the rotation of npu_kv_rmsnorm_rope_cache. Products are rounded
    to token_x's dtype; norms and rotations are in f32.

    token_x        (..., he), with one or two dimensions of tokens
    weight_dq      (he, hcq)
    weight_uq_qr   (hcq, n * (d + dr)). In int8 it needs `dequant_scale_w_uq_qr` (1, n *
                   (d + dr)); c then gets a scale for each row, after `smooth_scales_cq`
                   (1, hcq)
    weight_uk      (n, d, hckv)
    weight_dkv_kr  (he, hckv + dr)
    rmsnorm_gamma_cq, rmsnorm_gamma_ckv  (hcq,) and (hckv,)
    rope_sin, rope_cos  (..., dr)
    cache_index    (...): slots
    kv_cache, kr_cache  (blocks, block_size, 1, hckv) and (..., dr); with `cache_mode`
                   "PA_NZ" in blocks as npu_kv_rmsnorm_rope_cache has them
    quant_scale_ckv, quant_scale_ckr  (1, hckv) and (1, dr): the caches are int8

    Returns query (..., n, hckv), query_rope (..., n, dr) and copies of both caches.
    RuntimeError: another shape, dtype or mode.
    """
    steps = _steps("npu_mla_prolog", operands, options)
    text = "dequant_scale_x must be None, as is all but weight_uq_qr unquantised"
    check(steps.weight_quant_mode != ALL, steps.name, text)
    query, rope, _, _ = steps.run()
    return query, rope, steps.kv_cache.clone(), steps.kr_cache.clone()


@npu_operator_of(f"{_SCHEMA}{_FIVE}")
def npu_mla_prolog_v2(
    *operands: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_mla_prolog that also takes a token_x of int8.

    token_x, weight_dq, weight_dkv_kr  may be int8, all with weight_uq_qr; then
                     `dequant_scale_x` (tokens, 1), `dequant_scale_w_dq` (1, hcq) and
                     `dequant_scale_w_dkv_kr` (1, hckv + dr) are needed
    quant_scale_ckv  beside a token_x of int8 one factor: kv_cache is int8, kr_cache not;
                     query becomes int8, with a scale for each token and head, and
                     query_rope is multiplied by quant_scale_ckv over this scale

    Returns the results of npu_mla_prolog, and the scales of query (tokens, n, 1) f32,
    else one zero. RuntimeError: another shape, dtype or mode.
    """
    steps = _steps("npu_mla_prolog_v2", operands, options)
    query, rope, scales, _ = steps.run()
    nothing = torch.zeros(1, dtype=torch.float32, device=query.device)
    return (
        query,
        rope,
        steps.kv_cache.clone(),
        steps.kr_cache.clone(),
        nothing if scales is None else scales.unsqueeze(-1),
    )


def _steps(name: str, operands: tuple[Tensor, ...], options: dict[str, Any]) -> Prolog:
    """The steps of the first two versions, whose dtypes tell what is quantised."""
    names = (*_OPERANDS, "cache_index", "kv_cache", "kr_cache")
    given = _named(names, operands) | options
    full = given["token_x"].dtype == torch.int8
    mode = UP if given["weight_uq_qr"].dtype == torch.int8 else PLAIN
    few = given.get("quant_scale_ckv") is not None
    few = few or given.get("quant_scale_ckr") is not None
    caches = (1 if full else 2) if few else 0
    steps = Prolog(
        name=name,
        weight_quant_mode=ALL if full else mode,
        kv_cache_quant_mode=caches,
        query_quant_mode=int(caches == 1),
        **given,
    )
    known = steps.cache_mode in MODES[:2]
    text = f"cache_mode must be PA_BSND or PA_NZ, got {steps.cache_mode!r}"
    check(known, name, text)
    steps.check()
    return steps


def _named(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments by name; a caller may give the last ones by name already."""
    return dict(zip(names, values))


@npu_operator_of(f"({_FIRST}, {_CACHES}{_THIRD}{_FIVE}")
def npu_mla_prolog_v3(
    *operands: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_mla_prolog with more ways to store and to quantise; it copies no cache.

    cache_mode  "PA_BSND", "PA_NZ": `cache_index` has the slot of each token.
                "PA_BLK_BSND", "PA_BLK_NZ": it has the block of each page of a sequence,
                (b, pages), or (pages of all sequences,) for a token_x without a batch,
                which needs `actual_seq_len` (b,), the ends of sequences.
                "BSND", "TND": the caches have a row for each token, and no cache_index
    weight_quant_mode  0: nothing is quantised; 1: weight_uq_qr is int8; 2: token_x and
                all weights but weight_uk are int8, 4: float8_e4m3fn, 5: bytes of hifloat8,
                which `token_x_dtype`, `weight_dq_dtype`, `weight_uq_qr_dtype`,
                `weight_dkv_kr_dtype`, and of a quantised cache `kv_cache_dtype`, must say;
                3: in MX blocks, with scales of float8_e8m0fnu: (rows, he / 32) of token_x,
                and (n, k / 32) of each weight (k, n)
    kv_cache_quant_mode  0: caches have the dtype of weight_uk; 1: kv_cache has token_x's,
                by one factor `quant_scale_ckv` (1,), and `query_quant_mode` must be 1;
                2: both are int8, by `quant_scale_ckv` and `quant_scale_ckr`; 3: kv_cache
                has rows of hckv quantised elements, the rotary elements in weight_uk's
                dtype and an f32 scale for each `tile_size` of the elements: the largest
                times `k_nope_clip_alpha` (1,), over 127, 448 of float8, or 32768 of
                hifloat8. kr_cache is left alone; `ckvkr_repo_mode` and `quant_scale_repo_mode` must be 1
    qc_qr_scale, kc_scale  factors of c and of the rows of kv_cache
    query_norm_flag  whether c is returned, as its product reads it

    Returns query; query_rope; the scales of query (tokens, n, 1) in query_quant_mode 1;
    c (..., hcq); and its scales (tokens, 1), or of its blocks (tokens, hcq / 32) in uint8.
    What is not asked for is empty. RuntimeError: another shape, dtype or mode.
    """
    return _third("npu_mla_prolog_v3", operands, options)[1]


@npu_operator_of(f"({_FIRST}, {_COPIES}{_THIRD}{_FIVE[:-1]}, Tensor, Tensor)")
def npu_mla_prolog_v3_functional(
    *operands: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_mla_prolog_v3 of copies of the caches, which are returned after its results.
    RuntimeError: as there."""
    given = _named((*_OPERANDS, "kv_cache", "kr_cache"), operands) | options
    given |= {name: given[name].clone() for name in ("kv_cache", "kr_cache")}
    steps, results = _third("npu_mla_prolog_v3_functional", (), given)
    return *results, steps.kv_cache, steps.kr_cache


def _third(
    name: str, operands: tuple[Tensor, ...], options: dict[str, Any]
) -> tuple[Prolog, tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
    given = _named((*_OPERANDS, "kv_cache", "kr_cache"), operands) | options
    _read_types(name, given)
    wants_norm = given.pop("query_norm_flag", False)
    modes = given.pop("ckvkr_repo_mode", 0), given.pop("quant_scale_repo_mode", 0)
    steps = Prolog(name=name, **given)
    _check_modes(steps, modes)
    steps.check()
    query, rope, scales, norm = steps.run()
    nothing = torch.zeros(0, dtype=torch.float32, device=query.device)
    results = [
        query,
        rope,
        nothing,
        query.new_empty(0, dtype=norm.values.dtype),
        nothing,
    ]
    if scales is not None:
        results[2] = scales.unsqueeze(-1)
    if wants_norm:
        results[3] = norm.values.reshape(*steps.tokens, -1)
        if norm.scales is not None:
            mx = steps.weight_quant_mode == MX
            results[4] = norm.scales if mx else norm.scales.unsqueeze(-1)
    results[4] = results[4].clone() if results[4] is results[2] else results[4]
    return steps, (results[0], results[1], results[2], results[3], results[4])


def _read_types(name: str, given: dict[str, Any]) -> None:
    """Removes the arguments that say what operands hold. RuntimeError: they must say
    hifloat8, or nothing."""
    numbers = {what: given.pop(f"{what}_dtype", None) for what in _TYPED}
    is_small = given.get("weight_quant_mode", PLAIN) == HIF8
    plain = ("kv_cache",) if given.get("kv_cache_quant_mode", 0) == 0 else ()
    for what, number in numbers.items():
        if is_small and what not in plain:
            text = f"{what}_dtype must be hifloat8 in weight_quant_mode {HIF8}"
            check(number is not None, name, text)
            given_type(given[what], number, name, what, ("hifloat8",))
            given[what] = given[what].view(torch.uint8)
        else:
            check(number is None, name, f"{what}_dtype must be None, got {number}")


def _check_modes(steps: Prolog, repositories: tuple[int, int]) -> None:
    name, mode, kv = steps.name, steps.weight_quant_mode, steps.kv_cache_quant_mode
    check(PLAIN <= mode <= HIF8, name, f"no such weight_quant_mode: {mode}")
    check(kv in (0, 1, 2, 3), name, f"no such kv_cache_quant_mode: {kv}")
    wanted = int(kv == 1)
    text = f"query_quant_mode must be {wanted} in kv_cache_quant_mode {kv}"
    check(
        steps.query_quant_mode == wanted, name, f"{text}, got {steps.query_quant_mode}"
    )
    names = ("ckvkr_repo_mode", "quant_scale_repo_mode")
    for what, value in zip(names, repositories):
        wanted = int(kv == 3)
        text = f"{what} must be {wanted} in kv_cache_quant_mode {kv}, got {value}"
        check(value == wanted, name, text)
    known = steps.cache_mode in MODES
    text = f"cache_mode must be one of {MODES}, got {steps.cache_mode!r}"
    check(known, name, text)
