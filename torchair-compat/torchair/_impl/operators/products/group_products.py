"""The product of one group of npu_grouped_matmul: of floats, of integers with scales,
or of floats with integer weights.

After Ascend's API reference of torch_npu, page npu_grouped_matmul, formulae 1 to 4; and
of its kernels, page aclnnGroupedMatmulV5, for int8 with int4."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check
from ..quantisation.integers import to_int8, unpack_int4
from .quant_matmul import decode_scale, integer_product, scale_sums

NAME = "npu_grouped_matmul"
_NIBBLES = 8
_FLOATS = set(FLOATS)

# For each dtype of a result of int8 operands: the dtypes of scales.
_SCALES: dict[torch.dtype, set[torch.dtype]] = {
    torch.int8: {torch.int64},
    torch.bfloat16: {torch.bfloat16, torch.float32},
    torch.float16: {torch.float32, torch.int64},
}
# For a result that is not rounded yet.
_WIDE_SCALES = {torch.float16, torch.bfloat16, torch.float32}

# By act_type; 3 is not defined.
_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    1: torch.relu,
    2: lambda x: functional.gelu(x, approximate="tanh"),
    4: lambda x: x * torch.sigmoid(1.702 * x),
    5: functional.silu,
}


class GroupProducts:
    """The weights and tables of all groups. `of` computes the product of one group."""

    def __init__(
        self,
        x: Sequence[Tensor],
        weight: Sequence[Tensor],
        *,
        bias: Sequence[Tensor] | None = None,
        scale: Sequence[Tensor] | None = None,
        offset: Sequence[Tensor] | None = None,
        antiquant_scale: Sequence[Tensor] | None = None,
        antiquant_offset: Sequence[Tensor] | None = None,
        per_token: bool = False,
        act_type: int | None = None,
        output_dtype: torch.dtype | None = None,
        wide: bool = False,
    ) -> None:
        """`wide`: quantised operands have a result of f32, for an operator that goes on
        with it."""
        self.stacked = len(weight) == 1 and weight[0].dim() == 3
        self.weights = list(weight[0]) if self.stacked else list(weight)
        for one in self.weights:
            check(one.dim() == 2, NAME, "each weight must have 2 or 3 dimensions")
        self._biases = self._tables("bias", bias)
        self._scales = self._tables("scale", scale)
        self._offsets = self._tables("offset", offset)
        self._factors = self._tables("antiquant_scale", antiquant_scale)
        self._shifts = self._tables("antiquant_offset", antiquant_offset)
        kinds = {t.dtype for t in x}, {t.dtype for t in weight}
        check(all(len(k) == 1 for k in kinds), NAME, "x and weight must have a dtype")
        self.kind = x[0].dtype
        pair = (self.kind, weight[0].dtype)
        self.of_int8_and_int4 = pair == (torch.int8, torch.int32)
        self.result = torch.float32 if wide else output_dtype or self.kind
        self._wide = wide
        self._activation = self._check_activation(act_type, per_token)
        self.quantised = self._check_dtypes(weight[0].dtype, per_token)

    def __len__(self) -> int:
        return len(self.weights)

    def _tables(self, what: str, given: Sequence[Tensor] | None) -> list[Tensor | None]:
        """One table for each group: a list of them, or the rows of one tensor."""
        groups = len(self.weights)
        if not given:
            return [None] * groups
        if len(given) == groups and not self.stacked:
            return [_row(t) for t in given]
        if len(given) == 1 and given[0].dim() >= 2 and given[0].shape[0] == groups:
            return [_row(t) for t in given[0]]
        check(len(given) == groups, NAME, f"{what} must have {groups} parts")
        return [_row(t) for t in given]

    def _check_activation(
        self, act_type: int | None, per_token: bool
    ) -> Callable[[Tensor], Tensor] | None:
        if not act_type:
            return None
        known = sorted(_ACTIVATIONS)
        check(act_type in known, NAME, f"act_type must be 0 or {known}, got {act_type}")
        check(per_token, NAME, f"act_type {act_type} needs per_token_scale")
        return _ACTIVATIONS[act_type]

    def _check_dtypes(self, weight: torch.dtype, per_token: bool) -> bool:
        """Checks the dtypes. Returns whether both operands are integers."""
        has_scale = self._scales[0] is not None
        has_factor = self._factors[0] is not None
        if self.of_int8_and_int4:
            self._check_int8_and_int4(per_token)
            return True
        check(self._offsets[0] is None, NAME, "offset must be None")
        if self.kind in _FLOATS:
            same = weight == self.kind
            integers = weight in (torch.int8, torch.int32)
            text = f"x of {self.kind} and weight of {weight}"
            check(same or integers, NAME, f"{text} don't go together")
            check(same or has_factor, NAME, f"{text} need antiquant_scale")
            check(integers or not has_factor, NAME, f"{text}: no antiquant_scale")
            check(not has_scale, NAME, f"{text}: no scale")
            check(not per_token, NAME, f"{text}: no per_token_scale")
            fits = self.result in _FLOATS
            check(fits, NAME, f"{text} make no output_dtype {self.result}")
            return False
        known = self.kind in (torch.int8, torch.int32) and weight == self.kind
        check(known, NAME, f"no product of {self.kind} and {weight}")
        check(not has_factor, NAME, "antiquant_scale is for weights alone that are int")
        if self.kind == torch.int32:  # packed int4
            fits = self._wide or self.result in (torch.float16, torch.bfloat16)
            check(fits, NAME, f"int4 makes float16 or bfloat16, not {self.result}")
            check(has_scale, NAME, "operands of int4 need scale")
            check(self._biases[0] is None, NAME, "operands of int4 have no bias")
        elif self.result != torch.int32:
            allowed = _WIDE_SCALES if self._wide else _SCALES.get(self.result)
            check(allowed is not None, NAME, f"int8 makes no result of {self.result}")
            for table in self._scales:
                got = None if table is None else table.dtype
                text = f"a result of {self.result} needs another scale than {got}"
                check(got in (allowed or ()), NAME, text)
        return True

    def _check_int8_and_int4(self, per_token: bool) -> None:
        scale, offset = self._scales[0], self._offsets[0]
        for what, table, dtype in (
            ("bias", self._biases[0], torch.float32),
            ("scale", scale, torch.int64),
            ("offset", offset, torch.float32),
        ):
            got = None if table is None else table.dtype
            known = got == dtype or (got is None and what == "offset")
            text = f"int8 with int4 needs {what} of {dtype}, got {got}"
            check(known, NAME, text)
        check(per_token, NAME, "int8 with int4 needs per_token_scale")
        check(self._factors[0] is None, NAME, "int8 with int4: no antiquant_scale")
        check(self._activation is None, NAME, "int8 with int4: act_type must be 0")
        known_results = (torch.float16, torch.bfloat16)
        text = f"int8 with int4 makes float16 or bfloat16, not {self.result}"
        check(self._wide or self.result in known_results, NAME, text)
        fits = self._wide or offset is None or self.result == torch.float16
        check(fits, NAME, f"offset makes float16, not {self.result}")

    def columns(self, x: Tensor) -> int:
        """The number of columns of the result for rows of x."""
        inner = x.shape[-1] * (_NIBBLES if x.dtype == torch.int32 else 1)
        return self._weight(0, inner).shape[1]

    def _weight(self, group: int, inner: int) -> Tensor:
        """The weight of a group, (k, n). Packed int4 have an eighth of the columns, or
        of the rows in a transposed view."""
        weight = self.weights[group]
        if weight.dtype != torch.int32:
            return weight
        transposed = weight.shape[0] * _NIBBLES == inner
        return unpack_int4(weight.t()).t() if transposed else unpack_int4(weight)

    def of(self, group: int, x: Tensor, per_token: Tensor | None) -> Tensor:
        """x (..., k) times the weight of the group, with the scales of x's rows: (...,
        n)."""
        x = unpack_int4(x) if x.dtype == torch.int32 else x
        inner = x.shape[-1]
        weight, bias = self._weight(group, inner), self._biases[group]
        fits = inner == weight.shape[0]
        shapes = f"x of {tuple(x.shape)} and weight of {tuple(weight.shape)}"
        check(fits, NAME, f"{shapes} don't fit")
        width = weight.shape[1]
        check(
            bias is None or _fits(bias, width), NAME, f"bias must have shape ({width},)"
        )
        if self.quantised:
            return self._of_integers(group, x, weight, per_token)
        if self._factors[group] is not None:
            weight = self._restored(group, weight)
        elif bias is None:
            return (x @ weight).to(self.result)
        made = x.to(torch.float32) @ weight.to(torch.float32)
        made = made if bias is None else made + bias.to(torch.float32)
        return made.to(self.result)

    def _restored(self, group: int, weight: Tensor) -> Tensor:
        """(weight + offset) * scale in f32, with scales for columns, or for rows and
        columns."""
        factor, shift = self._factors[group], self._shifts[group]
        assert factor is not None
        check(
            shift is None or shift.shape == factor.shape,
            NAME,
            "antiquant_offset must have the shape of antiquant_scale",
        )
        wide = weight.to(torch.float32)
        if shift is not None:
            wide = wide + _over_rows(shift, weight, "antiquant_offset")
        return wide * _over_rows(factor, weight, "antiquant_scale")

    def _of_integers(
        self, group: int, x: Tensor, weight: Tensor, per_token: Tensor | None
    ) -> Tensor:
        scale, bias = self._scales[group], self._biases[group]
        if self.kind == torch.int32:
            assert scale is not None
            values = self._by_parts(x, weight, scale, None)
            if per_token is not None:
                values = values * per_token.unsqueeze(-1)
            return self._activated(values).to(self.result)
        if self.of_int8_and_int4:
            assert scale is not None and bias is not None and per_token is not None
            values = self._by_parts(x, weight, scale, self._offsets[group], less=8)
            return ((values + bias) * per_token.unsqueeze(-1)).to(self.result)
        total = integer_product(x, weight)
        if bias is not None and bias.dtype == torch.int32:
            total = total + bias
        if self.result == torch.int32:
            return total
        assert scale is not None
        check(
            _fits(scale, weight.shape[1]) or scale.numel() == 1,
            NAME,
            f"scale must have shape ({weight.shape[1]},) or (1,)",
        )
        shift = None
        if scale.dtype == torch.int64:
            scale, shift = decode_scale(scale)
        values = self._activated(scale_sums(total, scale, per_token, bias))
        if self.result == torch.int8:
            return to_int8(values if shift is None else values + shift)
        return values.to(self.result)

    def _by_parts(
        self,
        x: Tensor,
        weight: Tensor,
        scale: Tensor,
        offset: Tensor | None,
        less: int = 0,
    ) -> Tensor:
        """(x - less) @ weight in f32. Each part of k has scales of its own, and offsets,
        which multiply the sums of x's rows."""
        scale = decode_scale(scale)[0] if scale.dtype == torch.int64 else scale
        check(
            offset is None or offset.shape == scale.shape,
            NAME,
            "offset must have the shape of scale",
        )
        factors = _over_rows(scale.to(torch.float32), weight, "scale")
        parts = 1 if scale.dim() == 1 else scale.shape[0]
        size = weight.shape[0] // parts
        values: Tensor | None = None
        for part in range(parts):
            rows = slice(part * size, (part + 1) * size)
            total = integer_product(x[..., rows], weight[rows])
            if less:
                total = total - less * weight[rows].sum(0, dtype=torch.int32)
            factor = factors if factors.shape[0] == 1 else factors[part * size]
            made = total.to(torch.float32) * factor
            if offset is not None:
                sums = x[..., rows].sum(-1, keepdim=True, dtype=torch.int32)
                own = offset if offset.dim() == 1 else offset[part]
                made = made + sums.to(torch.float32) * own
            values = made if values is None else values + made
        assert values is not None
        return values

    def _activated(self, values: Tensor) -> Tensor:
        return values if self._activation is None else self._activation(values)


def _row(table: Tensor) -> Tensor:
    """A table (1, n) as (n,)."""
    return table[0] if table.dim() == 2 and table.shape[0] == 1 else table


def _fits(table: Tensor, width: int) -> bool:
    return tuple(table.shape) == (width,)


def _over_rows(table: Tensor, weight: Tensor, what: str) -> Tensor:
    """A table (n,) as (1, n), or (parts, n) as (k, n)."""
    inner, width = weight.shape
    right = table.shape[-1] == width and table.dim() in (1, 2)
    parts = table.shape[0] if table.dim() == 2 else 1
    check(
        right and parts > 0 and inner % parts == 0,
        NAME,
        f"{what} must have shape ({width},), or (parts, {width}) with parts that divide"
        f" {inner}, got {tuple(table.shape)}",
    )
    table = table.to(torch.float32)
    return (
        table.unsqueeze(0)
        if parts == 1 and table.dim() == 1
        else (table.repeat_interleave(inner // parts, 0))
    )
