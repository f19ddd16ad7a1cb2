"""npu_ffn: two products with an activation between them, of experts or not.

After Ascend's API reference of torch_npu, page of its name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator_of
from ..element_types import scalar_type
from ..quantisation.integer_sums import decode_scale, integer_product
from ..quantisation.integers import to_int8

_NAME = "npu_ffn"
_HALVES = (torch.float16, torch.bfloat16)
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "gelu": functional.gelu,
    "relu": torch.relu,
    "silu": functional.silu,
}
# These multiply the first half of a row by an activation of the second.
_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "geglu": functional.gelu,
    "reglu": torch.relu,
    "swiglu": functional.silu,
}
# The tables of the two quantised forms: what the other forms must not have.
_QUANTISED = ("scale", "offset", "deq_scale1", "deq_scale2")
_WIDENED = tuple(f"antiquant_{what}{i}" for what in ("scale", "offset") for i in (1, 2))


@npu_operator_of(
    "(Tensor x, Tensor weight1, Tensor weight2, str activation, *, int[]?"
    " expert_tokens=None, int[]? expert_tokens_index=None, Tensor? bias1=None, Tensor?"
    " bias2=None, Tensor? scale=None, Tensor? offset=None, Tensor? deq_scale1=None,"
    " Tensor? deq_scale2=None, Tensor? antiquant_scale1=None, Tensor?"
    " antiquant_scale2=None, Tensor? antiquant_offset1=None, Tensor?"
    " antiquant_offset2=None, int? inner_precise=None, int? output_dtype=None) -> Tensor"
)
def npu_ffn(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    activation: str,
    *,
    expert_tokens: list[int] | None = None,
    expert_tokens_index: list[int] | None = None,
    inner_precise: int | None = None,
    output_dtype: int | None = None,
    **tables: Tensor | None,
) -> Tensor:
    """activation(x @ weight1 + bias1) @ weight2 + bias2.

    x                    (..., k) float16 or bfloat16, or int8
    weight1, weight2     (k, n) and (n, k), or of experts (e, k, n) and (e, n, k): in x's
                         dtype, or int8
    activation           fastgelu, gelu, relu or silu; geglu, reglu or swiglu multiply the
                         first half of a row by an activation of the second, for float16
                         without experts and a weight1 (k, 2 n)
    expert_tokens        how many rows each expert has, in order; expert_tokens_index: the
                         end of each expert's rows
    bias1, bias2         (n,) and (k,), or (e, n) and (e, k)
    scale, offset        for x of int8: (1,) or (n,), or (e,) or (e, n): the activation times
                         scale plus offset is rounded to int8
    deq_scale1, 2        for x of int8: (n,) and (k,), or (e, ...): what sums of integers
                         are multiplied by, as npu_quant_matmul takes it
    antiquant_scale1, 2, antiquant_offset1, 2  for int8 weights of another x: the weight is
                         (weight + offset) * scale
    output_dtype         for x of int8: float16 (None) or bfloat16

    Results between steps are rounded to the dtype of the output, but for int8 weights of
    floats, whose are f32. inner_precise changes nothing: sums are f32. RuntimeError: another shape, dtype or option.
    """
    gated = activation in _GATES
    listed = ", ".join((*_ACTIVATIONS, *_GATES))
    known = activation in _ACTIVATIONS or gated
    check(known, _NAME, f"activation must be {listed}, got {activation!r}")
    known = inner_precise in (None, 0, 1)
    check(known, _NAME, f"inner_precise must be 0 or 1, got {inner_precise}")
    check_dtype(x, _NAME, "x", (*_HALVES, torch.int8))
    check(x.dim() >= 2, _NAME, f"x must have 2 or more dimensions, got {x.dim()}")
    kind = scalar_type(output_dtype, _NAME, "output_dtype", _HALVES)
    if x.dtype != torch.int8:
        check(kind in (None, x.dtype), _NAME, f"output_dtype must be None, got {kind}")
    kind = kind or (torch.float16 if x.dtype == torch.int8 else x.dtype)
    rows = x.reshape(-1, x.shape[-1])
    ends = _ends(rows.shape[0], expert_tokens, expert_tokens_index)
    if gated:
        _check_gated(activation, x, weight1, weight2, ends)
    experts = None if ends is None else len(ends)
    _check(x, weight1, weight2, experts, tables, 2 if gated else 1)
    act = _gate(_GATES[activation]) if gated else _ACTIVATIONS[activation]
    if ends is None:
        return _feed(rows, weight1, weight2, act, kind, tables).reshape(x.shape)
    parts, start = [], 0
    for expert, end in enumerate(ends):
        own = {what: None if t is None else t[expert] for what, t in tables.items()}
        weights = weight1[expert], weight2[expert]
        parts.append(_feed(rows[start:end], *weights, act, kind, own))
        start = end
    return torch.cat(parts).reshape(x.shape)


def _ends(
    rows: int, tokens: list[int] | None, ends: list[int] | None
) -> list[int] | None:
    if tokens is None and ends is None:
        return None
    both = tokens is not None and ends is not None
    check(not both, _NAME, "expert_tokens and expert_tokens_index exclude each other")
    what = "expert_tokens" if tokens is not None else "expert_tokens_index"
    found, total = ends or [], 0
    if tokens is not None:
        found = [total := total + size for size in tokens]
    rises = all(first <= last for first, last in zip([0, *found], found))
    fits = rises and bool(found) and found[-1] == rows
    check(fits, _NAME, f"{what} must rise up to {rows} rows, got {tokens or ends}")
    return found


def _check(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    experts: int | None,
    tables: dict[str, Tensor | None],
    halves: int,
) -> None:
    first = () if experts is None else (experts,)
    depth, width = x.shape[-1], weight1.shape[-1]
    integers = x.dtype == torch.int8
    allowed = (torch.int8,) if integers else (x.dtype, torch.int8)
    for what, weight, shape in (
        ("weight1", weight1, (*first, depth, width)),
        ("weight2", weight2, (*first, width // halves, depth)),
    ):
        check_dtype(weight, _NAME, what, allowed)
        check_shape(weight, _NAME, what, shape)
    widened = not integers and weight1.dtype == torch.int8
    for names, uses in ((_QUANTISED, integers), (_WIDENED, widened)):
        for what in names:
            text = (
                f"{what} must be None for x of {x.dtype} and weights of {weight1.dtype}"
            )
            check(uses or tables.get(what) is None, _NAME, text)
    needed = ("scale", "deq_scale1", "deq_scale2") if integers else ()
    for what in needed if not widened else ("antiquant_scale1", "antiquant_scale2"):
        check(tables.get(what) is not None, _NAME, f"{what} is needed")
    for what, table in tables.items():
        size = depth if what.endswith("2") else width
        one = [first or (1,)] if what in ("scale", "offset") else []
        check_shape(table, _NAME, what, (*first, size), *one)


def _gate(act: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def gate(rows: Tensor) -> Tensor:
        first, second = rows.chunk(2, -1)
        return first * act(second)

    return gate


def _check_gated(
    activation: str,
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    ends: list[int] | None,
) -> None:
    """RuntimeError: what a gate of an NPU does not take."""
    check(ends is None, _NAME, f"{activation} must have no experts")
    for what, tensor in (("x", x), ("weight1", weight1), ("weight2", weight2)):
        text = f"{what} must be float16 for {activation}, got {tensor.dtype}"
        check(tensor.dtype == torch.float16, _NAME, text)
    even = weight1.shape[-1] % 2 == 0
    text = f"weight1 must have an even number of columns for {activation}, got"
    check(even, _NAME, f"{text} {weight1.shape[-1]}")


def _feed(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    act: Callable[[Tensor], Tensor],
    kind: torch.dtype,
    tables: dict[str, Tensor | None],
) -> Tensor:
    hidden = _product(x, weight1, "1", kind, tables)
    rows = act(hidden.to(torch.float32)).to(hidden.dtype)
    scale, offset = tables.get("scale"), tables.get("offset")
    if scale is not None:
        rows = rows * scale.to(kind)
        rows = to_int8(rows if offset is None else rows + offset.to(kind))
    return _product(rows, weight2, "2", kind, tables).to(kind)


def _product(
    x: Tensor,
    weight: Tensor,
    which: str,
    kind: torch.dtype,
    tables: dict[str, Tensor | None],
) -> Tensor:
    """One of the two products with its bias: f32 for int8 weights of floats, else in the
    dtype of the output."""
    bias = tables.get(f"bias{which}")
    if x.dtype == torch.int8:
        total = integer_product(x, weight, None)
        scale = tables[f"deq_scale{which}"]
        assert scale is not None
        if bias is not None:
            total = total + bias
        if scale.dtype == torch.int64:
            scale, _ = decode_scale(scale)
        return (total.to(torch.float32) * scale.to(torch.float32)).to(kind)
    factor = tables.get(f"antiquant_scale{which}")
    if factor is None:
        made = torch.matmul(x, weight)
        return made if bias is None else (made.to(torch.float32) + bias).to(kind)
    offset = tables.get(f"antiquant_offset{which}")
    # An NPU adds and multiplies in float16, and bfloat16 in f32.
    steps = torch.float16 if factor.dtype == torch.float16 else torch.float32
    wide = weight.to(steps)
    wide = wide if offset is None else wide + offset.to(steps)
    wide = (wide * factor.to(steps)).to(factor.dtype)
    made = torch.matmul(x.to(torch.float32), wide.to(torch.float32))
    return made if bias is None else made + bias
