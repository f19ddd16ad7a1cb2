"""Mixtures of experts: chooses the experts of rows, orders rows by expert, and joins
the results.

After Ascend's API reference of torch_npu: pages npu_moe_gating_top_k_softmax,
npu_moe_init_routing and npu_moe_finalize_routing."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Reserved

_INDEX = (torch.int32,)


@npu_operator
def npu_moe_gating_top_k_softmax(
    x: Tensor, finished: Tensor | None = None, k: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of softmax(x) over the last dimension.

    x         (..., experts) float, of 2 or 3 dimensions
    finished  (...) bool: these rows get the number of experts as their expert, which is
              none

    Returns the values (..., k) in x's dtype; their experts (..., k) int32; and int32
    (..., k) with j * rows + i for the j-th choice of row i. RuntimeError: another shape
    or dtype.
    """
    name = "npu_moe_gating_top_k_softmax"
    _check_gate(x, finished, k, name)
    values, experts = torch.softmax(x.to(torch.float32), -1).topk(k, -1)
    experts = _unfinished(experts, finished, x.shape[-1])
    rows = x.shape[:-1].numel()
    numbers = torch.arange(rows * k, dtype=torch.int32, device=x.device)
    numbers = numbers.reshape(k, rows).t().reshape(experts.shape)
    return values.to(x.dtype), experts, numbers.contiguous()


@npu_operator
def npu_moe_gating_top_k_softmax_v2(
    x: Tensor,
    *,
    k: int = 1,
    finished: Tensor | None = None,
    renorm: int | None = 0,
    output_softmax: bool | None = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_moe_gating_top_k_softmax, which may take the k largest of x first.

    renorm          0 takes the k largest of the softmax; 1 the softmax of the k largest
    output_softmax  for renorm 0: returns the whole softmax in f32 too

    Returns the values (..., k) in x's dtype, their experts (..., k) int32, and the softmax,
    or an empty tensor. RuntimeError: another shape, dtype or option.
    """
    name = "npu_moe_gating_top_k_softmax_v2"
    check(renorm in (None, 0, 1), name, f"renorm must be 0 or 1, got {renorm}")
    _check_gate(x, finished, k, name)
    wide = x.to(torch.float32)
    whole = wide.new_empty(0)
    if renorm == 1:
        values, experts = wide.topk(k, -1)
        values = torch.softmax(values, -1)
    else:
        probabilities = torch.softmax(wide, -1)
        values, experts = probabilities.topk(k, -1)
        whole = probabilities if output_softmax else whole
    return values.to(x.dtype), _unfinished(experts, finished, x.shape[-1]), whole


def _check_gate(x: Tensor, finished: Tensor | None, k: int, name: str) -> None:
    check_dtype(x, name, "x")
    check(x.dim() in (2, 3), name, f"x must have 2 or 3 dimensions, got {x.dim()}")
    check_dtype(finished, name, "finished", (torch.bool,))
    check_shape(finished, name, "finished", tuple(x.shape[:-1]))
    count = x.shape[-1]
    check(0 <= k <= min(count, 1024), name, f"k must be from 0 to {count}, got {k}")


def _unfinished(experts: Tensor, finished: Tensor | None, count: int) -> Tensor:
    """The experts in int32; rows that are finished have none, which is `count`."""
    experts = experts.to(torch.int32)
    if finished is None:
        return experts
    return torch.where(finished.unsqueeze(-1), count, experts)


@npu_operator
def npu_moe_init_routing(
    x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of x in the order of experts, one for each choice.

    x           (rows, h)
    row_idx     (rows, k) int32: the numbers of choices
    expert_idx  (rows, k) int32
    active_num  how many rows take part

    Returns the rows (min(rows, active_num) * k, h); for each number in row_idx its
    place there, (rows * k,) int32; and the sorted experts, int32. RuntimeError: another
    shape or dtype.
    """
    name = "npu_moe_init_routing"
    check_dtype(x, name, "x")
    check(x.dim() == 2, name, f"x must have 2 dimensions, got {x.dim()}")
    check_dtype(row_idx, name, "row_idx", _INDEX)
    check_dtype(expert_idx, name, "expert_idx", _INDEX)
    rows = x.shape[0]
    right = expert_idx.dim() == 2 and expert_idx.shape[0] == rows
    check(right, name, f"expert_idx must have shape ({rows}, k)")
    check_shape(row_idx, name, "row_idx", tuple(expert_idx.shape))
    check(active_num >= 0, name, f"active_num must not be negative, got {active_num}")
    experts, order = torch.sort(expert_idx.reshape(-1), stable=True)
    numbers = row_idx.reshape(-1).to(torch.int64)[order]
    places = torch.arange(order.shape[0], dtype=torch.int32, device=x.device)
    found = torch.zeros_like(places).scatter(0, numbers, places)
    active = min(active_num, rows) * expert_idx.shape[1]
    return x[numbers[:active] % rows], found, experts


@npu_operator
def npu_moe_finalize_routing(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None = 0,
    k: Reserved[int | None] = 1,
) -> Tensor:
    """skip1 + skip2 + the sum over k of scales[i, k] * (row + bias of its expert):
    (rows, h) in the dtype of the rows, computed in f32.

    The row is expanded_permuted_rows[expanded_src_to_dst_row[p]]. p is k * rows + i, as
    npu_moe_init_routing numbers choices; with `drop_pad_mode` 2 and 3 it is i * K + k, as
    npu_moe_init_routing_v2 does. A negative place is a row of zeros. With 1 and 3 the
    permuted rows are (experts, capacity, h). RuntimeError: another shape, dtype or
    drop_pad_mode.
    """
    name = "npu_moe_finalize_routing"
    given = expanded_permuted_rows
    known = drop_pad_mode in (None, 0, 1, 2, 3)
    check(known, name, f"drop_pad_mode must be 0 to 3, got {drop_pad_mode}")
    check_dtype(given, name, "expanded_permuted_rows")
    dims = 3 if drop_pad_mode in (1, 3) else 2
    check(
        given.dim() == dims, name, f"expanded_permuted_rows must have {dims} dimensions"
    )
    given = given.flatten(0, -2)
    check_dtype(expanded_src_to_dst_row, name, "expanded_src_to_dst_row", _INDEX)
    width, total = given.shape[1], expanded_src_to_dst_row.shape[0]
    k = 1 if scales is None else scales.shape[-1]
    rows = total // k
    text = f"expanded_src_to_dst_row has {total} places, which are no rows of {k} of scales"
    check(rows * k == total, name, text)
    check_shape(scales, name, "scales", (rows, k))
    check(skip2 is None or skip1 is not None, name, "skip2 needs skip1")
    for label, skip in (("skip1", skip1), ("skip2", skip2)):
        check_shape(skip, name, label, (rows, width))
    check_shape(export_for_source_row, name, "export_for_source_row", (rows, k))
    places = expanded_src_to_dst_row.to(torch.int64)
    by_row = drop_pad_mode in (2, 3)
    places = places.reshape(rows, k) if by_row else places.reshape(k, rows).t()
    parts = given.to(torch.float32)[places.clamp(min=0)]
    parts = torch.where((places >= 0).unsqueeze(-1), parts, 0.0)
    if bias is not None:
        check(
            export_for_source_row is not None, name, "bias needs export_for_source_row"
        )
        assert export_for_source_row is not None
        check(
            bias.dim() == 2 and bias.shape[1] == width,
            name,
            f"bias must have shape (experts, {width}), got {tuple(bias.shape)}",
        )
        parts = parts + bias.to(torch.float32)[export_for_source_row.to(torch.int64)]
    if scales is not None:
        parts = parts * scales.to(torch.float32).unsqueeze(-1)
    result = parts.sum(1)
    for skip in (skip1, skip2):
        if skip is not None:
            result = result + skip.to(torch.float32)
    return result.to(given.dtype)
