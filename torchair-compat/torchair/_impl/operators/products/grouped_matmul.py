"""npu_grouped_matmul: a product for each group of rows, of columns, or of matrices.

After Ascend's API reference of torch_npu, page npu_grouped_matmul, and of its kernels,
page aclnnGroupedMatmulV3, for groups of columns, and page aclnnGroupedMatmulV5, for
int8 with int4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, reads_values
from ..definition import npu_function
from ..element_types import number_of, scalar_type
from ..quantisation.rows import group_of_rows
from .group_products import NAME, GroupProducts
from .small_groups import are_small, widened

_MOST = 128  # the most tensors of a list


@npu_function
def npu_grouped_matmul(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    *,
    bias: Sequence[Tensor] | None = None,
    scale: Sequence[Tensor] | None = None,
    offset: Sequence[Tensor] | None = None,
    antiquant_scale: Sequence[Tensor] | None = None,
    antiquant_offset: Sequence[Tensor] | None = None,
    per_token_scale: Sequence[Tensor] | None = None,
    group_list: Sequence[int] | Tensor | None = None,
    activation_input: Sequence[Tensor] | None = None,
    activation_quant_scale: Sequence[Tensor] | None = None,
    activation_quant_offset: Sequence[Tensor] | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    group_list_type: int | None = 0,
    act_type: int | None = 0,
    output_dtype: torch.dtype | int | None = None,
    tuning_config: Sequence[int] | None = None,
    x_dtype: torch.dtype | int | None = None,
    weight_dtype: torch.dtype | int | None = None,
    scale_dtype: torch.dtype | int | None = None,
    per_token_scale_dtype: torch.dtype | int | None = None,
) -> list[Tensor]:
    """x[i] @ weight[i] for each group.

    weight      (k, n) for each group, or one tensor (groups, k, n)
    group_type  -1: x[i] (..., k) for each group. 0: one x (m, k), whose rows are split.
                2: one x (m, k) and one weight (k, n), whose columns and rows a
                group_list tensor splits: (groups, m, n). None: -1 without a group_list,
                else 0
    group_list  a list or an int64 tensor
    group_list_type  what group_list has: 0 sums of sizes, 1 sizes, 2 pairs of group and
                size, for int8
    split_item  0 and 1: the result is a list with a tensor for each group. 2 and 3: a
                list with one tensor of all rows, which a group_list tensor of rows
                needs
    bias, scale, antiquant_scale, antiquant_offset  a list with one for each group, or
                with one tensor that stacks them

    tuning_config has no effect on this host. Rows of no group are 0. GroupProducts has
    the formulas. RuntimeError: arguments that do not fit together.
    """
    activation = (activation_input, activation_quant_scale, activation_quant_offset)
    _check_no_activation(activation)
    _check_numbers(split_item, group_type, group_list_type)
    partner = not antiquant_offset or bool(antiquant_scale)
    check(partner, NAME, "antiquant_offset needs antiquant_scale")
    kinds = (x_dtype, weight_dtype, scale_dtype, per_token_scale_dtype)
    tables = {
        "bias": bias,
        "scale": scale,
        "offset": offset,
        "antiquant_scale": antiquant_scale,
        "antiquant_offset": antiquant_offset,
    }
    operands = _operands(x, weight, tables, per_token_scale, kinds, output_dtype)
    products = operands.products(act_type)
    one = split_item in (2, 3)
    return _multiplied(operands, products, group_list, group_type, group_list_type, one)


class _Operands(NamedTuple):
    """What is multiplied, after small floats became f32."""

    x: Sequence[Tensor]
    weight: Sequence[Tensor]
    tables: dict[str, Any]
    per_token: Sequence[Tensor] | None
    result: torch.dtype | None

    def products(self, act_type: int | None) -> GroupProducts:
        for what, tensors in (("x", self.x), ("weight", self.weight)):
            count = len(tensors)
            right = 0 < count <= _MOST
            check(right, NAME, f"{what} must have 1 to {_MOST} parts, got {count}")
        return GroupProducts(
            self.x,
            self.weight,
            **self.tables,
            per_token=bool(self.per_token),
            act_type=act_type,
            output_dtype=self.result,
        )


def _operands(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    tables: dict[str, Any],
    per_token: Sequence[Tensor] | None,
    kinds: Sequence[Any],
    output_dtype: torch.dtype | int | None,
) -> _Operands:
    result = _result_dtype(output_dtype)
    if not (are_small(x, kinds[0]) or are_small(weight, kinds[1])):
        _check_no_kinds(*kinds)
        return _Operands(x, weight, tables, per_token, result)
    scales = tables["scale"], tables["antiquant_scale"]
    x, weight = widened(x, weight, *scales, per_token, *kinds)
    check(result is not None, NAME, "output_dtype is needed for small floats")
    none = not tables["offset"] and not tables["antiquant_offset"]
    check(none, NAME, "small floats take no offset and no antiquant_offset")
    return _Operands(x, weight, {"bias": tables["bias"]}, None, result)


def _multiplied(
    operands: _Operands,
    products: GroupProducts,
    group_list: Sequence[int] | Tensor | None,
    group_type: int | None,
    kind: int | None,
    one: bool,
) -> list[Tensor]:
    """The products of columns, of rows, or of matrices. `one`: as one tensor."""
    x = operands.x
    if products.of_int8_and_int4:
        single = len(x) == 1 and products.stacked and group_type in (None, 0) and one
        check(single, NAME, "int8 with int4 takes one x, one weight, group_type 0")
        kind = 1
    if group_type == 2:
        biased = bool(operands.tables["bias"])
        made = _columns(x, operands.weight, products, group_list, kind, biased)
        return [made] if one else list(made)
    tokens = _per_token(x, operands.per_token)
    if len(x) == 1 and group_list is not None:
        check(group_type != -1, NAME, "group_type -1 takes no group_list")
        return _rows(x[0], products, tokens[0], group_list, one, kind)
    text = f"{len(x)} matrices x and {len(products)} weights need a group_list"
    check(len(x) == len(products), NAME, text)
    _check_matrices(x, group_list, kind, one)
    parts = [products.of(i, a, t) for i, (a, t) in enumerate(zip(x, tokens))]
    return [torch.cat(parts)] if one else parts


def quantised_rows(
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    kind: int | None,
    scale: Tensor,
    per_token: Tensor | None,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """npu_grouped_matmul of integers in f32: the rows of x (m, k), which a group_list
    tensor splits among the weights (groups, k, n)."""
    products = GroupProducts(
        [x],
        [weight],
        scale=[scale],
        bias=None if bias is None else [bias],
        offset=None if offset is None else [offset],
        per_token=per_token is not None,
        wide=True,
    )
    tokens = _per_token([x], None if per_token is None else [per_token])
    return _rows(x, products, tokens[0], group_list, True, kind)[0]


def small_rows(
    x: Tensor,
    weight: Sequence[Tensor],
    group_list: Tensor,
    kind: int | None,
    scale: Sequence[Tensor] | None,
    per_token: Tensor | None,
    kinds: Sequence[int | None],
    bias: Tensor | None = None,
) -> Tensor:
    """npu_grouped_matmul of small floats in f32, as `quantised_rows` has it of integers.
    `kinds`: x_dtype, weight_dtype, scale_dtype and per_token_scale_dtype."""
    tokens = None if per_token is None else [per_token]
    rows, columns = widened([x], weight, scale, None, tokens, *kinds)
    biases = None if bias is None else [bias.to(torch.float32)]
    products = GroupProducts(rows, columns, bias=biases)
    return _rows(rows[0], products, None, group_list, True, kind)[0]


def _result_dtype(dtype: torch.dtype | int | None) -> torch.dtype | None:
    kinds = (torch.int8, torch.int32, *FLOATS)
    return scalar_type(number_of(dtype), NAME, "output_dtype", kinds)


def _check_no_activation(given: Sequence[Sequence[Tensor] | None]) -> None:
    names = ("input", "quant_scale", "quant_offset")
    for what, tensors in zip(names, given):
        check(not tensors, NAME, f"activation_{what} must be None")


def _check_no_kinds(*kinds: torch.dtype | int | None) -> None:
    names = ("x_dtype", "weight_dtype", "scale_dtype", "per_token_scale_dtype")
    for what, number in zip(names, kinds):
        text = f"{what} must be None, got {number}: it is for small floats"
        check(number is None, NAME, text)


def _check_numbers(
    split_item: int | None, group_type: int | None, group_list_type: int | None
) -> None:
    check(split_item in (0, 1, 2, 3), NAME, f"no such split_item: {split_item}")
    known = group_type in (None, -1, 0, 2)
    check(known, NAME, f"group_type must be -1, 0 or 2, got {group_type}")
    known = group_list_type in (None, 0, 1, 2)
    check(known, NAME, f"no such group_list_type: {group_list_type}")


def _per_token(
    x: Sequence[Tensor], scales: Sequence[Tensor] | None
) -> list[Tensor | None]:
    if not scales:
        return [None] * len(x)
    check(len(scales) == len(x), NAME, f"per_token_scale must have {len(x)} parts")
    for a, scale in zip(x, scales):
        shape = tuple(a.shape[:-1])
        right = tuple(scale.shape) == shape and scale.dtype == torch.float32
        got = f"{scale.dtype} {tuple(scale.shape)}"
        check(right, NAME, f"per_token_scale must be float32 {shape}, got {got}")
    return list(scales)


def _check_matrices(
    x: Sequence[Tensor],
    group_list: Sequence[int] | Tensor | None,
    kind: int | None,
    one: bool,
) -> None:
    """A matrix for each group, and a group_list that must say the same."""
    most = 2 if one else 6
    for a in x:
        fits = 2 <= a.dim() <= most
        check(fits, NAME, f"x must have 2 to {most} dimensions, got {a.dim()}")
    if isinstance(group_list, Tensor) or group_list is None:
        return  # a graph does not know a tensor's values
    ends = _ends(group_list, len(x), kind)
    sizes = [end - start for start, end in zip([0, *ends], ends)]
    rows = [a.shape[0] for a in x]
    check(sizes == rows, NAME, f"group_list has groups of {sizes} rows, x of {rows}")


def _ends(group_list: Sequence[int], groups: int, kind: int | None) -> list[int]:
    """The end of each group's rows."""
    check(kind != 2, NAME, "group_list_type 2 needs a group_list tensor")
    ends = [int(end) for end in group_list]
    check(len(ends) == groups, NAME, f"group_list must have {groups} parts")
    if kind == 1:
        ends = [sum(ends[: i + 1]) for i in range(len(ends))]
    rising = all(a <= b for a, b in zip([0, *ends], ends))
    check(rising, NAME, f"group_list must not fall, got {list(group_list)}")
    return ends


def _rows(
    x: Tensor,
    products: GroupProducts,
    tokens: Tensor | None,
    group_list: Sequence[int] | Tensor,
    one: bool,
    kind: int | None,
) -> list[Tensor]:
    check(x.dim() == 2, NAME, f"x must have 2 dimensions, got {x.dim()}")
    if isinstance(group_list, Tensor):
        check(one, NAME, "a group_list tensor needs split_item 2 or 3")
        return [_rows_of_tensor(x, products, tokens, group_list, kind)]
    ends = _ends(group_list, len(products), kind)
    parts = _slices(x, products, tokens, ends, range(len(products)))
    return [_joined(x, parts)] if one else parts


def _slices(
    x: Tensor,
    products: GroupProducts,
    tokens: Tensor | None,
    ends: Sequence[int],
    groups: Sequence[int],
) -> list[Tensor]:
    """The result of each group, whose rows end at `ends`."""
    rows = x.shape[0]
    fits = not ends or ends[-1] <= rows
    check(fits, NAME, f"group_list {list(ends)} does not split {rows} rows")
    return [
        products.of(group, x[start:end], None if tokens is None else tokens[start:end])
        for group, start, end in zip(groups, [0, *ends], ends)
    ]


def _joined(x: Tensor, parts: Sequence[Tensor]) -> Tensor:
    done = sum(part.shape[0] for part in parts)
    rest = parts[0].new_zeros(x.shape[0] - done, parts[0].shape[1])
    return torch.cat([*parts, rest])


def _rows_of_tensor(
    x: Tensor,
    products: GroupProducts,
    tokens: Tensor | None,
    group_list: Tensor,
    kind: int | None,
) -> Tensor:
    sizes, groups = _sizes(products, group_list, kind)
    if reads_values(group_list):
        ends = _ends(sizes.tolist(), len(products), 1)
        numbers = range(len(products)) if groups is None else groups.tolist()
        return _joined(x, _slices(x, products, tokens, ends, numbers))
    # In a graph the sizes are data: each row reads the weight of its own group. So the
    # graph has as many nodes for many groups as for few.
    place = group_of_rows(sizes.cumsum(0), x.shape[0])
    inside = (place < len(products)).unsqueeze(-1)
    place = place.clamp(max=len(products) - 1)
    place = place if groups is None else groups[place]
    made = products.of_rows(place, x, tokens)
    return torch.where(inside, made, torch.zeros_like(made))


def _sizes(
    products: GroupProducts, group_list: Tensor, kind: int | None
) -> tuple[Tensor, Tensor | None]:
    """The sizes of groups, int64, and the group of each if the list names it."""
    integers = group_list.dtype in (torch.int64, torch.int32)
    check(integers, NAME, f"group_list must be int64, got {group_list.dtype}")
    count = len(products)
    shape = (count, 2) if kind == 2 else (count,)
    got = tuple(group_list.shape)
    check(got == shape, NAME, f"group_list must have shape {shape}, got {got}")
    values = group_list.to(torch.int64)
    if kind == 2:
        check(products.kind == torch.int8, NAME, "group_list_type 2 needs x of int8")
        return values[:, 1], values[:, 0]
    if kind == 1:
        return values, None
    return torch.diff(values, prepend=values.new_zeros(1)), None


def _columns(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    products: GroupProducts,
    group_list: Sequence[int] | Tensor | None,
    kind: int | None,
    biased: bool,
) -> Tensor:
    """(groups, m, n) from x (m, k) and weight (k, n), with groups of k."""
    single = len(x) == len(weight) == 1 and x[0].dim() == weight[0].dim() == 2
    check(single, NAME, "group_type 2 takes one matrix x and one weight")
    plain = not products.quantised and weight[0].dtype == x[0].dtype
    check(plain, NAME, "group_type 2 takes floats of one dtype")
    check(not biased, NAME, "group_type 2 takes no bias")
    given = isinstance(group_list, Tensor) and kind != 2 and group_list.dim() == 1
    check(given, NAME, "group_type 2 needs a group_list tensor (groups,)")
    assert isinstance(group_list, Tensor)
    a, w = x[0], weight[0]
    fits = a.shape[1] == w.shape[0]
    check(fits, NAME, f"x of {tuple(a.shape)} and weight of {tuple(w.shape)} don't fit")
    if reads_values(group_list):
        stops = _ends(group_list.tolist(), group_list.shape[0], kind)
        inside = stops[-1] <= a.shape[1]
        check(inside, NAME, f"group_list {stops} does not split {a.shape[1]} columns")
        slices = [slice(start, end) for start, end in zip([0, *stops], stops)]
        return torch.stack([(a[:, s] @ w[s]).to(products.result) for s in slices])
    ends = group_list.to(torch.int64)
    ends = ends.cumsum(0) if kind == 1 else ends
    place = group_of_rows(ends, w.shape[0])
    parts = []
    for number in range(group_list.shape[0]):
        own = place == number
        left = torch.where(own, a, torch.zeros_like(a))
        right = torch.where(own.unsqueeze(-1), w, torch.zeros_like(w))
        parts.append((left @ right).to(products.result))
    return torch.stack(parts)
