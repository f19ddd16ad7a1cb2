"""Products of int8 and int4 with scales, joined to an exchange of equal blocks among ranks.

After the pages aclnnAlltoAllQuantMatmulV2 and aclnnQuantMatmulAlltoAllV2 of Ascend's
ops-transformer, as an A2 computes them: bias comes after the scales."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..products.rank_groups import side_by_side
from ..products.rank_products import check_depth
from ..quantisation.integer_sums import integer_product, scale_sums
from ..quantisation.integers import unpack_int4
from ..quantisation.rows import row_scale

__all__ = [
    "DYNAMIC",
    "EXCHANGED_MODES",
    "PER_CHANNEL",
    "PER_TOKEN",
    "Tables",
    "exchanged_product",
    "is_integer",
    "scaled_product",
]

_HALF = (torch.float16, torch.bfloat16)
PER_CHANNEL, PER_TOKEN, DYNAMIC = 2, 3, 7
# The quant modes of rows that ranks exchange, and of the weight.
EXCHANGED_MODES = (DYNAMIC, PER_CHANNEL), (PER_TOKEN, PER_CHANNEL)
_MOST_EXCHANGED = 35_000  # elements of a row
_MOST = 65_535


def is_integer(weight: Tensor) -> bool:
    """Whether the weight is of int8, or of int32 that have eight int4 each."""
    return weight.dtype in (torch.int8, torch.int32)


class Tables(NamedTuple):
    """What scales rows and columns of a product, and what is added to it."""

    of_rows: Tensor | None
    of_columns: Tensor | None
    bias: Tensor | None

    def product(
        self, name: str, rows: Tensor, columns: Tensor, kind: torch.dtype
    ) -> Tensor:
        """int8 rows @ columns in exact int32, times the scales of columns and of rows,
        plus bias; in f32, then rounded to `kind`."""
        check_depth(name, rows, columns)
        width = columns.shape[1]
        text = f"y_dtype must be float16 or bfloat16 for integers, got {kind}"
        check(kind in _HALF, name, text)
        check_dtype(self.bias, name, "bias", (kind, torch.float32))
        check_shape(self.bias, name, "bias", (width,))
        check(self.of_columns is not None, name, "x2_scale is needed")
        assert self.of_columns is not None
        check_dtype(self.of_columns, name, "x2_scale", (torch.float32,))
        check_shape(self.of_columns, name, "x2_scale", (width,))
        sums = integer_product(rows, columns)
        return scale_sums(sums, self.of_columns, self.of_rows, self.bias).to(kind)


def exchanged_product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    size: int,
    mode: int,
    tables: Tables,
    kind: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """(product, rows) of the rows that ranks exchange: rows of float16 or bfloat16 are
    quantised as they arrive, to the type of the weight, by their largest element; packed
    int4 has scales."""
    rows = side_by_side(x1, size, hcom)
    columns = unpack_int4(x2) if x2.dtype == torch.int32 else x2
    if x1.dtype == torch.int32:
        text = f"x1 of int4 needs x1_quant_mode {PER_TOKEN} and x2 of int4"
        check(mode == PER_TOKEN and x2.dtype == torch.int32, name, text)
        values = unpack_int4(rows)
        scale = _own_part(name, tables.of_rows, x1.shape[0], size, hcom)
    else:
        check_dtype(x1, name, "x1", _HALF)
        text = f"x1 of {x1.dtype} needs x1_quant_mode {DYNAMIC}"
        check(mode == DYNAMIC, name, text)
        check(kind == x1.dtype, name, f"y_dtype must be that of x1, got {kind}")
        even = rows.shape[1] % 16 == 0
        text = "16 must divide the elements of the rows of all ranks"
        check(even, name, f"{text}, {rows.shape[1]}")
        largest = 7 if x2.dtype == torch.int32 else 127
        values, scale = row_scale(_smoothed(name, rows, tables.of_rows), largest)
    depth = values.shape[1]
    text = f"rows of all ranks must have 1 to {_MOST_EXCHANGED} elements, got {depth}"
    check(1 <= depth <= _MOST_EXCHANGED, name, text)
    made = tables._replace(of_rows=scale).product(name, values, columns, kind)
    return made, rows


def _smoothed(name: str, rows: Tensor, smooth: Tensor | None) -> Tensor:
    """The rows times the scale of each column, in f32."""
    wide = rows.to(torch.float32)
    if smooth is None:
        return wide
    check_dtype(smooth, name, "x1_scale", (rows.dtype,))
    check_shape(smooth, name, "x1_scale", (rows.shape[1],))
    return wide * smooth.to(torch.float32)


def _own_part(
    name: str, scale: Tensor | None, rows: int, size: int, hcom: str
) -> Tensor:
    """The scales of the rows that this rank receives, of those of all rows."""
    check(scale is not None, name, f"x1_scale is needed in x1_quant_mode {PER_TOKEN}")
    assert scale is not None
    check_dtype(scale, name, "x1_scale", (torch.float32,))
    check_shape(scale, name, "x1_scale", (rows,))
    rank = dist.distributed_c10d._resolve_process_group(hcom).rank()
    return scale.narrow(0, rank * (rows // size), rows // size)


def scaled_product(
    name: str, x1: Tensor, x2: Tensor, tables: Tables, kind: torch.dtype
) -> Tensor:
    """The product of int8 rows, which have scales, before ranks exchange it."""
    for what, operand in (("x1", x1), ("x2", x2)):
        check_dtype(operand, name, what, (torch.int8,))
    depth = x1.shape[1]
    text = f"rows of x1 must have 1 to {_MOST} elements, got {depth}"
    check(1 <= depth <= _MOST, name, text)
    check_dtype(tables.of_rows, name, "x1_scale", (torch.float32,))
    check_shape(tables.of_rows, name, "x1_scale", (x1.shape[0],))
    return tables.product(name, x1, x2, kind)
