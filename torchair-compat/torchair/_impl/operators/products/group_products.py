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
from ..quantisation.integer_sums import decode_scale, integer_product, scale_sums
from ..quantisation.integers import to_int8, unpack_int4
from .int4_parts import by_parts, check_parts

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


class Table:
    """A tensor for each group: its rows, or one of a list. `of` has a dimension for rows,
    so (n,) is (1, n)."""

    def __init__(self, given: Sequence[Tensor], groups: int, rows: bool) -> None:
        """`rows`: the one tensor given has a row for each group."""
        self._rows = given[0] if rows else None
        self._parts = given
        self._groups = groups
        self.dtype = given[0].dtype

    def __len__(self) -> int:
        return self._groups

    def of(self, group: int | Tensor) -> Tensor:
        """The tensor of one group; or of a group for each row, (rows, ..., n). A graph
        reads the rows where they are: the copy that eager PyTorch makes is not made."""
        if isinstance(group, Tensor):
            rows = torch.stack(list(self._parts)) if self._rows is None else self._rows
            return _two(rows[group], 3)
        return _two(self._parts[group] if self._rows is None else self._rows[group], 2)


def _two(table: Tensor, most: int) -> Tensor:
    return table.unsqueeze(-2) if table.dim() < most else table


class GroupProducts:
    """The weights and tables of all groups. `of` computes the product of one group, or
    of one row each with its own group. The arithmetic depends on the operands:

    - Floats of one dtype: the bias is added before the result is rounded.
    - int8: int32 sums plus an int32 bias; in f32 times `scale` (n,) or (1,), times
      `per_token_scale` (m,), plus another bias; then `act_type` (1 relu, 2 gelu by
      tanh, 4 fast gelu, 5 silu). The result has `output_dtype`: a float, int8 with
      scales of npu_trans_quant_param, or int32 sums.
    - int32: eight int4 each, with scales (n,) or (parts, n).
    - int8 and a weight of int4: ((x - 8) @ weight * `scale` + bias + x's sums *
      `offset`) * `per_token_scale`, where `scale` and `offset` have a row for each part
      of k. The bias, 8 * scale * weight summed over k, takes the 8 away again.
      group_list has sizes, whatever group_list_type says
    - Floats and a weight of int8 or int4: (weight + antiquant_offset) *
      antiquant_scale, both (n,) or (parts, n).
    - float8 and other small floats come as f32: `small_groups` multiplies their scales.
    """

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
        right = self.stacked or all(one.dim() == 2 for one in weight)
        check(right, NAME, "each weight must have 2 or 3 dimensions")
        groups = weight[0].shape[0] if self.stacked else len(weight)
        self._weights = Table(weight, groups, self.stacked)
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
        return len(self._weights)

    def _tables(self, what: str, given: Sequence[Tensor] | None) -> Table | None:
        """One table for each group: a list of them, or the rows of one tensor."""
        groups = len(self)
        if not given:
            return None
        rows = len(given) == 1 and given[0].dim() >= 2 and given[0].shape[0] == groups
        rows = rows and (self.stacked or groups > 1)
        check(rows or len(given) == groups, NAME, f"{what} must have {groups} parts")
        check(given[0].dim() > 0, NAME, f"{what} must have 1 dimension or more")
        return Table(given, groups, rows)

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
        has_scale = self._scales is not None
        has_factor = self._factors is not None
        if self.of_int8_and_int4:
            self._check_int8_and_int4(per_token)
            return True
        check(self._offsets is None, NAME, "offset must be None")
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
            check(self._biases is None, NAME, "operands of int4 have no bias")
        elif self.result != torch.int32:
            allowed = _WIDE_SCALES if self._wide else _SCALES.get(self.result)
            check(allowed is not None, NAME, f"int8 makes no result of {self.result}")
            got = None if self._scales is None else self._scales.dtype
            text = f"a result of {self.result} needs another scale than {got}"
            check(got in (allowed or ()), NAME, text)
        return True

    def _check_int8_and_int4(self, per_token: bool) -> None:
        offset = self._offsets
        for what, table, dtype in (
            ("bias", self._biases, torch.float32),
            ("scale", self._scales, torch.int64),
            ("offset", offset, torch.float32),
        ):
            got = None if table is None else table.dtype
            known = got == dtype or (got is None and what == "offset")
            text = f"int8 with int4 needs {what} of {dtype}, got {got}"
            check(known, NAME, text)
        check(per_token, NAME, "int8 with int4 needs per_token_scale")
        check(self._factors is None, NAME, "int8 with int4: no antiquant_scale")
        check(self._activation is None, NAME, "int8 with int4: act_type must be 0")
        known_results = (torch.float16, torch.bfloat16)
        text = f"int8 with int4 makes float16 or bfloat16, not {self.result}"
        check(self._wide or self.result in known_results, NAME, text)
        fits = self._wide or offset is None or self.result == torch.float16
        check(fits, NAME, f"offset makes float16, not {self.result}")

    def _weight(self, group: int | Tensor, inner: int) -> Tensor:
        """The weight of a group, (..., k, n). Packed int4 have an eighth of the columns,
        or of the rows in a transposed view."""
        weight = self._weights.of(group)
        if weight.dtype != torch.int32:
            return weight
        if weight.shape[-2] * _NIBBLES == inner:
            return unpack_int4(weight.transpose(-1, -2)).transpose(-1, -2)
        return unpack_int4(weight)

    def of_rows(self, groups: Tensor, x: Tensor, per_token: Tensor | None) -> Tensor:
        """x (m, k), each row times the weight of its own group: (m, n). `groups` (m,)"""
        token = None if per_token is None else per_token.unsqueeze(-1)
        return self.of(groups, x.unsqueeze(-2), token).squeeze(-2)

    def of(self, group: int | Tensor, x: Tensor, per_token: Tensor | None) -> Tensor:
        """x (..., k) times the weight of the group, with the scales of x's rows: (...,
        n)."""
        x = unpack_int4(x) if x.dtype == torch.int32 else x
        inner = x.shape[-1]
        weight = self._weight(group, inner)
        fits = inner == weight.shape[-2]
        shapes = f"x of {tuple(x.shape)} and weight of {tuple(weight.shape)}"
        check(fits, NAME, f"{shapes} don't fit")
        bias = None if self._biases is None else self._biases.of(group)
        width = weight.shape[-1]
        right = bias is None or tuple(bias.shape[-2:]) == (1, width)
        check(right, NAME, f"bias must have shape ({width},)")
        if self.quantised:
            return self._of_integers(group, x, weight, per_token, bias)
        if self._factors is not None:
            weight = self._restored(group, weight)
        elif bias is None:
            return (x @ weight).to(self.result)
        made = x.to(torch.float32) @ weight.to(torch.float32)
        made = made if bias is None else made + bias.to(torch.float32)
        return made.to(self.result)

    def _restored(self, group: int | Tensor, weight: Tensor) -> Tensor:
        """(weight + offset) * scale in f32, with scales for columns, or for rows and
        columns."""
        assert self._factors is not None
        factor = self._factors.of(group)
        wide = weight.to(torch.float32)
        if self._shifts is not None:
            shift = self._shifts.of(group)
            text = "antiquant_offset must have the shape of antiquant_scale"
            check(shift.shape == factor.shape, NAME, text)
            wide = wide + _over_rows(shift, weight, "antiquant_offset")
        return wide * _over_rows(factor, weight, "antiquant_scale")

    def _of_integers(
        self,
        group: int | Tensor,
        x: Tensor,
        weight: Tensor,
        per_token: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        scale = None if self._scales is None else self._scales.of(group)
        if self.kind == torch.int32:
            assert scale is not None
            values = by_parts(NAME, x, weight, scale, None)
            if per_token is not None:
                values = values * per_token.unsqueeze(-1)
            return self._activated(values).to(self.result)
        if self.of_int8_and_int4:
            assert scale is not None
            assert bias is not None
            assert per_token is not None
            offset = None if self._offsets is None else self._offsets.of(group)
            values = by_parts(NAME, x, weight, scale, offset, less=8)
            return ((values + bias) * per_token.unsqueeze(-1)).to(self.result)
        total = integer_product(x, weight)
        if bias is not None and bias.dtype == torch.int32:
            total = total + bias
        if self.result == torch.int32:
            return total
        assert scale is not None
        return self._scaled(total, scale, per_token, bias)

    def _scaled(
        self,
        total: Tensor,
        scale: Tensor,
        per_token: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """int32 sums times scales, activated and rounded."""
        width = total.shape[-1]
        right = scale.shape[-2] == 1 and scale.shape[-1] in (1, width)
        check(right, NAME, f"scale must have shape ({width},) or (1,)")
        shift = None
        if scale.dtype == torch.int64:
            scale, shift = decode_scale(scale)
        values = self._activated(scale_sums(total, scale, per_token, bias))
        if self.result == torch.int8:
            return to_int8(values if shift is None else values + shift)
        return values.to(self.result)

    def _activated(self, values: Tensor) -> Tensor:
        return values if self._activation is None else self._activation(values)


def _over_rows(table: Tensor, weight: Tensor, what: str) -> Tensor:
    """A table (..., parts, n) in f32, as (..., k, n) or (..., 1, n)."""
    check_parts(NAME, table, weight, what)
    table, parts = table.to(torch.float32), table.shape[-2]
    if parts == 1:
        return table
    return table.repeat_interleave(weight.shape[-2] // parts, -2)
