"""npu_moe_init_routing_v2: orders rows by expert, and quantises them.

After Ascend's API reference of torch_npu, page npu_moe_init_routing_v2, with its
equivalent computation on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator
from ..element_types import given_type
from ..products.small_products import E8M0_BYTES, is_small
from ..quantisation.integers import to_int8
from ..quantisation.rows import row_scale
from .init_small import SMALL_MODES, small_rows

_NAME = "npu_moe_init_routing_v2"
_NONE, _STATIC, _INT8, _INT4 = -1, 0, 1, 13  # quant_mode
_MODES = (_NONE, _STATIC, _INT8, _INT4, *SMALL_MODES)
_INT4_NUMBER = 285
_SMALL = ("hifloat8", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2")


@npu_operator
def npu_moe_init_routing_v2(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: Annotated[Sequence[int], "int[2]"] = (),
    row_idx_type: int = 0,
    x_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rows of x in the order of experts, one for each choice.

    x           (rows, h) float or int8; for quant_mode -1 also float8_e4m3fn, float8_e5m2,
                or with `x_dtype` bytes of hifloat8 or float4_e2m1fn_x2
    expert_idx  (rows, k) int32
    active_num  how many rows are returned; -1 and 0: rows * k
    active_expert_range  [first, end): rows of other experts are zeros, after the
                         others
    drop_pad_mode  1: each expert has `expert_capacity` rows. Rows beyond are left out,
                   and zeros fill up
    quant_mode  -1: the rows keep x's dtype; with `scale` (rows,) their scales are those
                of their tokens. 0: int8 by `scale` (1,) and `offset` (1,). 1: int8 with
                a scale each, after `scale` (experts, h) or (1, h). 13: int4 in the same
                way, after `scale` (1, h); a uint8 has two, the lower four bits first.
                2 and 3: float8_e5m2 and float8_e4m3fn in MX blocks of 32, whose largest
                magnitude over the type's largest number is rounded up to a power of two;
                16 and 17: the same of at least 1e-4. 9: float4_e2m1fn_x2, as
                npu_dynamic_mx_quant. 6: hifloat8. 7: hifloat8 of rows times `scale` (1,).
                8: hifloat8 by row. 11 and 12: float8_e5m2 and float8_e4m3fn in blocks of
                128. 4 and 5: the same by powers of two that are not below; 14 and 15: of
                at least 1e-4

    Returns four tensors:

    1. the rows, (rows * k, h), or (experts, capacity, h) in drop_pad_mode 1
    2. for each choice i * k + j its place there (`row_idx_type` 0), or for each place
       its choice (1): (rows * k,) int32, -1 where there is none
    3. for each expert of the range, int64, before rows are left out: the end of its
       rows (`expert_tokens_num_type` 0), their number (1), or pairs of expert and
       number where there are rows, then zeros (2): (expert_num, 2)
    4. the scales of the rows, f32; zeros where there are none. Of MX blocks
       float8_e8m0fnu (rows * k, blocks), an even number, for float4 bytes (rows * k,
       blocks / 2, 2); of blocks of 128 pairs (rows * k, blocks / 2, 2), or (rows * k,
       blocks). `scale` of x of small floats is (rows, h / 64, 2)

    RuntimeError: another shape, dtype or mode.
    """
    _check_kind(x, x_dtype, quant_mode)
    check_dtype(expert_idx, _NAME, "expert_idx", (torch.int32,))
    fits = x.dim() == 2 and expert_idx.dim() == 2 and x.shape[0] == expert_idx.shape[0]
    check(fits, _NAME, "x and expert_idx must be matrices of as many rows")
    known = expert_tokens_num_type in (0, 1, 2) and row_idx_type in (0, 1)
    text = "expert_tokens_num_type must be 0, 1 or 2, and row_idx_type 0 or 1"
    check(known, _NAME, text)
    experts = list(active_expert_range or (0, expert_num))
    text = f"active_expert_range must have 2 numbers, got {experts}"
    check(len(experts) == 2, _NAME, text)
    first, end = experts
    text = f"active_expert_range {experts} of expert_num {expert_num} has no experts"
    check(0 <= first < end, _NAME, text)
    check(active_num >= -1, _NAME, f"active_num must not be below -1, got {active_num}")
    order = _Order.of(expert_idx, first, end)
    if drop_pad_mode == 1:
        whole = first == 0 and end == expert_num
        text = f"drop_pad_mode 1 needs all {expert_num} experts, not {first} to {end}"
        check(whole, _NAME, text)
        text = "drop_pad_mode 1 needs row_idx_type 0 and no expert_tokens_num_type 2"
        check(row_idx_type == 0 and expert_tokens_num_type != 2, _NAME, text)
        choices, places = _with_capacity(order, end, expert_capacity, x.shape[0])
        kind = 1
    else:
        check(drop_pad_mode == 0, _NAME, f"no such drop_pad_mode: {drop_pad_mode}")
        choices, places = _without_capacity(order, active_num, row_idx_type)
        kind = expert_tokens_num_type
    taken = _Rows(choices, expert_idx, first, end)
    values, scales = _rows(x, taken, scale, offset, quant_mode, x_dtype)
    if drop_pad_mode == 1:
        values = values.unflatten(0, (end, expert_capacity))
    return values, places, _sizes(order.experts, first, end, kind, expert_num), scales


def _check_kind(x: Tensor, number: int | None, quant: int) -> None:
    """RuntimeError: x is no operand of this quant_mode."""
    check(quant in _MODES, _NAME, f"quant_mode must be one of {_MODES}, got {quant}")
    if quant == _INT4:
        known = number in (None, _INT4_NUMBER)
        text = f"x_dtype must be None or int4 in quant_mode 13, got {number}"
        check(known, _NAME, text)
        return
    if quant == _NONE and is_small(x, number):
        given_type(x, number, _NAME, "x", _SMALL)
        return
    text = f"x_dtype must be None in quant_mode {quant} for x of {x.dtype}"
    check(number is None, _NAME, f"{text}, got {number}")
    check_dtype(
        x, _NAME, "x", FLOATS if quant in SMALL_MODES else (*FLOATS, torch.int8)
    )


class _Order(NamedTuple):
    """Choices in the order of their experts: the expert of each, which is `end` outside
    of the range; the number of each choice; and whether its expert is in the range."""

    experts: Tensor
    choices: Tensor
    inside: Tensor

    @staticmethod
    def of(expert_idx: Tensor, first: int, end: int) -> _Order:
        flat = expert_idx.reshape(-1).to(torch.int64)
        known = (flat >= first) & (flat < end)
        experts, choices = torch.sort(torch.where(known, flat, end), stable=True)
        return _Order(experts, choices, experts < end)


def _without_capacity(
    order: _Order, active_num: int, row_idx_type: int
) -> tuple[Tensor, Tensor]:
    """The choice of each row of the result, -1 for none; and the second result."""
    choices = torch.where(order.inside, order.choices, -1)
    total = choices.shape[0]
    kept = choices if active_num <= 0 else choices[: min(active_num, total)]
    if row_idx_type:
        return kept, choices.to(torch.int32)
    numbers = torch.arange(total, dtype=torch.int32, device=choices.device)
    numbers = torch.where(order.inside, numbers, -1)
    return kept, torch.zeros_like(numbers).scatter(0, order.choices, numbers)


def _with_capacity(
    order: _Order, experts: int, capacity: int, rows: int
) -> tuple[Tensor, Tensor]:
    """The choice of each of the experts' slots, -1 for none; and the slot of each
    choice, -1 for a choice that is left out."""
    text = f"expert_capacity must be from 1 to {rows}, got {capacity}"
    check(0 < capacity <= rows, _NAME, text)
    numbers = torch.arange(order.choices.shape[0], device=order.choices.device)
    within = numbers - torch.searchsorted(order.experts, order.experts)
    fits = order.inside & (within < capacity)
    slots = torch.where(fits, order.experts * capacity + within, -1)
    places = torch.zeros_like(slots).scatter(0, order.choices, slots)
    # One more slot takes the choices that are left out.
    last = experts * capacity
    empty = torch.full((last + 1,), -1, dtype=torch.int64, device=slots.device)
    choices = empty.scatter(0, torch.where(fits, slots, last), order.choices)
    return choices[:last], places.to(torch.int32)


class _Rows(NamedTuple):
    """The choice of each row of the result, -1 for none, and the choices' experts."""

    choices: Tensor
    expert_idx: Tensor
    first: int
    end: int

    def filled(self) -> Tensor:
        return self.choices >= 0

    def of(self, table: Tensor) -> Tensor:
        """The table's row of each token, zeros where there is none."""
        tokens = self.choices.clamp(min=0) // self.expert_idx.shape[1]
        filled = self.filled().reshape(-1, *(1,) * (table.dim() - 1))
        if table.dtype.itemsize > 1:
            return torch.where(filled, table[tokens], 0)
        bits = table.view(torch.uint8)[tokens]
        return torch.where(filled, bits, torch.zeros_like(bits)).view(table.dtype)

    def experts(self) -> Tensor:
        """The place of each row's expert in the range."""
        flat = self.expert_idx.reshape(-1).to(torch.int64)
        found = flat[self.choices.clamp(min=0)] - self.first
        return found.clamp(0, self.end - self.first - 1)


def _scales_of_tokens(x: Tensor, number: int | None) -> list[tuple[int, ...]]:
    """The shapes of scales that belong to tokens: one for each, or e8m0 pairs."""
    if not is_small(x, number):
        return [(x.shape[0],)]
    width = x.shape[1]
    if given_type(x, number, _NAME, "x", _SMALL).is_packed:
        width = 2 * width
    return [(x.shape[0],), (x.shape[0], -(-width // 64), 2)]


def _rows(
    x: Tensor,
    taken: _Rows,
    scale: Tensor | None,
    offset: Tensor | None,
    quant: int,
    number: int | None,
) -> tuple[Tensor, Tensor]:
    """The rows of the result, and their scales. `number`: x_dtype."""
    in_blocks = quant == _NONE and scale is not None and scale.dim() == 3
    check_dtype(scale, _NAME, "scale", E8M0_BYTES if in_blocks else (torch.float32,))
    check_dtype(offset, _NAME, "offset", (torch.float32,))
    none = torch.zeros_like(taken.choices, dtype=torch.float32)
    if quant == _STATIC:
        for what, table in (("scale", scale), ("offset", offset)):
            check(table is not None, _NAME, f"quant_mode 0 needs {what}")
            check_shape(table, _NAME, what, (1,))
        assert scale is not None and offset is not None
        made = to_int8(x.to(torch.float32) * scale + offset)
        return taken.of(made), none
    check(offset is None, _NAME, f"offset must be None in quant_mode {quant}")
    if quant == _NONE:
        if scale is None:
            return taken.of(x), none
        check_shape(scale, _NAME, "scale", *_scales_of_tokens(x, number))
        return taken.of(x), taken.of(scale)
    width, filled = x.shape[1], taken.filled()
    if quant in SMALL_MODES:
        return small_rows(x, taken.of(x.to(torch.float32)), filled, quant, scale)
    if x.shape[0] == 0:
        scale = None  # it has a row of no token
    tables = [(1, width)]
    if quant == _INT8:
        tables.append((taken.end - taken.first, width))
    else:
        text = f"quant_mode 13 needs x of float32 or bfloat16, got {x.dtype}"
        check(x.dtype in (torch.float32, torch.bfloat16), _NAME, text)
        even = width % 2 == 0
        check(even, _NAME, f"quant_mode 13 needs rows of an even size, got {width}")
    check_shape(scale, _NAME, "scale", *tables)
    wide = taken.of(x.to(torch.float32))
    if scale is not None:
        wide = wide * (scale if scale.shape[0] == 1 else scale[taken.experts()])
    made, largest = row_scale(wide, 127 if quant == _INT8 else 7)
    if quant == _INT4:
        pairs = (made & 15).to(torch.uint8).unflatten(-1, (-1, 2))
        made = pairs[..., 0] | (pairs[..., 1] << 4)
    return made, torch.where(filled, largest, 0.0)


def _sizes(experts: Tensor, first: int, end: int, kind: int, expert_num: int) -> Tensor:
    """The ends, numbers, or pairs of expert and number, from sorted experts."""
    numbers = torch.arange(first, end, device=experts.device)
    if kind == 0:
        return (experts.unsqueeze(-1) <= numbers).sum(0)
    counts = (experts.unsqueeze(-1) == numbers).sum(0)
    if kind == 1:
        return counts
    order = torch.sort((counts == 0).to(torch.int8), stable=True).indices
    pairs = torch.stack([numbers, counts], -1)[order]
    pairs = torch.where(pairs[:, 1:] > 0, pairs, 0)
    return torch.nn.functional.pad(pairs, (0, 0, 0, expert_num - (end - first)))
