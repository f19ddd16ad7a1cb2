"""Products of small floats of experts joined to uneven exchanges of rows among ranks.

After Ascend's API reference of torch_npu, page npu_alltoallv_quant_gmm, and the schema and
tests of npu_quant_gmm_alltoallv."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check, check_dtype
from ..definition import npu_operator_of
from ..element_types import given_type, scalar_type
from ..products.small_products import E8M0_BYTES, SMALL_TYPES, small_product
from .uneven import checked_counts, sizes_of_experts

_HALF = (torch.float16, torch.bfloat16)
_PER_TENSOR, _MX = 1, 6
_OPERANDS = (
    "(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, str"
    " hcom, int ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *,"
    " Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, Tensor? mm_x=None,"
    " Tensor? mm_weight=None, Tensor? mm_x_scale=None, Tensor? mm_weight_scale=None,"
)
_MODES = (
    " int? gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, int?"
    " mm_x_quant_mode=None, int? mm_weight_quant_mode=None,"
)
_DTYPES = (
    " int[]? group_size=None, int? gmm_x_dtype=None, int? gmm_weight_dtype=None, int?"
    " gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? mm_x_dtype=None, int?"
    " mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None,"
)
_END = " int? mm_y_dtype=None, str? comm_mode=None) -> "


class _Product:
    """The product of experts ("gmm") or of shared experts ("mm") of a call: checks its
    operands, and multiplies."""

    def __init__(self, name: str, which: str, given: dict[str, Any]) -> None:
        self.name, self.which, self.given = name, which, given
        kind = given.get(f"{which}_y_dtype")
        check(kind is not None, name, f"{which}_y_dtype is needed beside {which}_x")
        self.kind = kind
        scalar_type(kind, name, f"{which}_y_dtype", _HALF)
        self.mode = self._mode()
        allowed = (torch.float32,) if self.mode == _PER_TENSOR else E8M0_BYTES
        for what in ("x", "weight"):
            full = f"{which}_{what}"
            given_type(self.of(what), self.of(f"{what}_dtype"), name, full, SMALL_TYPES)
            scale = self.of(f"{what}_scale")
            check(scale is not None, name, f"{full}_scale is needed beside {full}")
            check_dtype(scale, name, f"{full}_scale", allowed)
            one = self.mode == _MX or tuple(scale.shape) == (1,)
            text = f"{full}_scale must have shape (1,), got {tuple(scale.shape)}"
            check(one, name, text)
        self._check_group_size()

    def of(self, what: str) -> Any:
        """An argument of this product."""
        return self.given.get(f"{self.which}_{what}")

    def _mode(self) -> int:
        modes = [self.of(f"{what}_quant_mode") for what in ("x", "weight")]
        for what, mode in zip(("x", "weight"), modes):
            text = f"{self.which}_{what}_quant_mode must be 1 (one scale) or 6 (MX)"
            check(mode in (None, _PER_TENSOR, _MX), self.name, f"{text}, got {mode}")
        first, second = (mode or _PER_TENSOR for mode in modes)
        text = f"{self.which}_x_quant_mode {first} needs the same"
        text = f"{text} {self.which}_weight_quant_mode, got {second}"
        check(first == second, self.name, text)
        return first

    def _check_group_size(self) -> None:
        given = list(self.given.get("group_size") or [0, 0, 0])
        known = [[0, 0, 0]] + ([[1, 1, 32]] if self.mode == _MX else [])
        text = f"group_size must be one of {known}, got {given}"
        check(given in known, self.name, text)

    def multiplied(
        self, x: Tensor, weight: Tensor, x_scale: Tensor, scale: Tensor
    ) -> Tensor:
        """x @ weight, times both scales."""
        return small_product(
            self.name,
            x,
            weight,
            scale,
            x_scale,
            None,
            x1_dtype=self.of("x_dtype"),
            x2_dtype=self.of("weight_dtype"),
            pertoken_scale_dtype=self.of("x_scale_dtype"),
            scale_dtype=self.of("weight_scale_dtype"),
            output_dtype=self.kind,
        )

    def of_experts(self, rows: Tensor, x_scale: Tensor, counts: list[int]) -> Tensor:
        """The product of the rows of each expert by its weight. `x_scale` has a line for
        each row in MX formats."""
        weight, scale = self.of("weight"), self.of("weight_scale")
        mx = self.mode == _MX
        sizes = sizes_of_experts(counts, weight.shape[0])
        factors = x_scale.split(sizes) if mx else [x_scale] * len(sizes)
        made = [
            self.multiplied(part, weight[one], factor, scale[one] if mx else scale)
            for one, (part, factor) in enumerate(zip(rows.split(sizes), factors))
        ]
        return torch.cat(made)


def _shared(name: str, given: dict[str, Any]) -> Tensor:
    """The product of the shared experts, or an empty tensor."""
    x, weight = given.get("mm_x"), given.get("mm_weight")
    both = (x is None) == (weight is None)
    check(both, name, "mm_x and mm_weight go together")
    if x is None or weight is None:
        for what, value in given.items():
            alone = value is None or not what.startswith("mm_")
            check(alone, name, f"{what} needs mm_x and mm_weight")
        return given["gmm_x"].new_empty(0, dtype=torch.float16)
    for what, operand in (("mm_x", x), ("mm_weight", weight)):
        check(
            operand.dim() == 2, name, f"{what} must have 2 dimensions: {operand.dim()}"
        )
    product = _Product(name, "mm", given)
    return product.multiplied(x, weight, given["mm_x_scale"], given["mm_weight_scale"])


@npu_operator_of(
    _OPERANDS
    + _MODES
    + " bool permute_out_flag=False,"
    + _DTYPES
    + _END
    + "(Tensor, Tensor, Tensor)"
)
def npu_alltoallv_quant_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    gmm_x_scale: Tensor,
    gmm_weight_scale: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: list[int],
    recv_counts: list[int],
    gmm_y_dtype: int,
    *,
    send_counts_tensor: Tensor | None = None,
    recv_counts_tensor: Tensor | None = None,
    permute_out_flag: bool = False,
    comm_mode: str | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """npu_alltoallv_gmm of small floats, times the scales of both operands.

    gmm_x, gmm_weight  (rows, h) and (experts, h, n): float8_e4m3fn, float8_e5m2, or bytes
                    of hifloat8 or float4 with gmm_x_dtype and gmm_weight_dtype
    gmm_x_scale, gmm_weight_scale  float32 (1,) with quant_mode 1; with 6 bytes of
                    float8_e8m0fnu (rows, h / 64, 2) and (experts, h / 64, n, 2)
    gmm_y_dtype     float16 or bfloat16; mm_y_dtype: of the product of shared experts
    mm_x, mm_weight, mm_x_scale, mm_weight_scale  of shared experts, alike
    group_size      zeros, or [1, 1, 32] with quant_mode 6

    RuntimeError: another shape, dtype, mode, group, count or option.
    """
    name = "npu_alltoallv_quant_gmm"
    both = (send_counts, recv_counts), (send_counts_tensor, recv_counts_tensor)
    counts = checked_counts(
        name, gmm_x, gmm_weight, hcom, ep_world_size, *both, comm_mode
    )
    given = {
        "gmm_x": gmm_x,
        "gmm_weight": gmm_weight,
        "gmm_x_scale": gmm_x_scale,
        "gmm_weight_scale": gmm_weight_scale,
        "gmm_y_dtype": gmm_y_dtype,
        **options,
    }
    product = _Product(name, "gmm", given)
    rows = counts.by_expert(counts.exchanged(gmm_x))
    factor = gmm_x_scale
    if product.mode == _MX:
        factor = counts.by_expert(counts.exchanged(factor))
    made = product.of_experts(rows, factor, counts.receive)
    return made, _shared(name, given), rows if permute_out_flag else rows.new_empty(0)


@npu_operator_of(
    _OPERANDS
    + " Tensor? comm_quant_scale=None,"
    + _MODES
    + " int? comm_quant_mode=None,"
    + _DTYPES
    + " int? comm_quant_dtype=None,"
    + _END
    + "(Tensor, Tensor)"
)
def npu_quant_gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    gmm_x_scale: Tensor,
    gmm_weight_scale: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: list[int],
    recv_counts: list[int],
    gmm_y_dtype: int,
    *,
    send_counts_tensor: Tensor | None = None,
    recv_counts_tensor: Tensor | None = None,
    comm_quant_scale: Tensor | None = None,
    comm_quant_mode: int | None = None,
    comm_quant_dtype: int | None = None,
    comm_mode: str | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """npu_gmm_alltoallv of small floats, times the scales of both operands, which are those
    of npu_alltoallv_quant_gmm.

    comm_quant_mode  0 or None: ranks send products in the dtype of the result

    RuntimeError: another shape, dtype, mode, group, count or option.
    """
    name = "npu_quant_gmm_alltoallv"
    known = comm_quant_mode in (None, 0)
    check(known, name, f"comm_quant_mode must be 0, got {comm_quant_mode}")
    for what, value in (
        ("comm_quant_scale", comm_quant_scale),
        ("comm_quant_dtype", comm_quant_dtype),
    ):
        check(value is None, name, f"{what} must be None for comm_quant_mode 0")
    both = (send_counts, recv_counts), (send_counts_tensor, recv_counts_tensor)
    counts = checked_counts(
        name, gmm_x, gmm_weight, hcom, ep_world_size, *both, comm_mode
    )
    given = {
        "gmm_x": gmm_x,
        "gmm_weight": gmm_weight,
        "gmm_x_scale": gmm_x_scale,
        "gmm_weight_scale": gmm_weight_scale,
        "gmm_y_dtype": gmm_y_dtype,
        **options,
    }
    product = _Product(name, "gmm", given)
    made = product.of_experts(gmm_x, gmm_x_scale, counts.send)
    return counts.exchanged(counts.by_rank(made)), _shared(name, given)
