"""Rounds the weights of a layer one column after the other. Each time it moves the columns
that follow, so that they make up for the error on the inputs of a text. Then it fits
scales and offsets to the integers.

This is GPTQ (Frantar, Ashkboos, Hoefler, Alistarh: "GPTQ: Accurate Post-Training
Quantization for Generative Pre-trained Transformers", 2022)."""

from __future__ import annotations

import torch

from .group_lines import fitted, rounded
from .layer_inputs import at_least, flat

# Columns after which the ones further on are moved at once.
BLOCK = 64
# How often all groups are fitted after the last column.
REFITS = 2
# The part of the correlation between columns that is not trusted: the columns of another
# text correlate in another way.
LESS = 0.3


class Columns:
    """How the columns of an input correlate."""

    def __init__(self, x: torch.Tensor) -> None:
        inputs = flat(x)
        squares = inputs.square().sum(0) / max(len(inputs), 1)
        # The cost of a squared error of a column's weights, float32 [columns].
        self.importance = at_least(squares)
        # The columns that matter most come first.
        self.order = self.importance.argsort(descending=True, stable=True)
        sizes = self.importance[self.order].sqrt()
        even = inputs[:, self.order] / sizes
        products = even.t() @ even * ((1 - LESS) / max(len(inputs), 1))
        products.diagonal().fill_(1)
        # The mean products of columns, in the model's order.
        self.products = torch.empty_like(products)
        scaled = products * sizes * sizes.unsqueeze(1)
        self.products[self.order.unsqueeze(1), self.order] = scaled
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(products))
        # The upper factor [columns, columns] of the inverse of the products, in this
        # order. A row says how later columns make up for an error of its column.
        self.factor = torch.linalg.cholesky(inverse, upper=True) / sizes


def rounded_in_turn(
    weight: torch.Tensor, columns: Columns, group: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The integers of a weight float32 [rows, columns], and scale and offset of this
    dtype for each group of columns. No row's error counts more than that of rounding
    its weights to the nearest integers on the lines of `fitted`."""
    rows = len(weight)
    groups = weight.view(rows, -1, group)
    lines = [
        found.to(dtype) for found in fitted(groups, columns.importance.view(-1, group))
    ]
    nearest = rounded(groups, *(found.float() for found in lines)).flatten(1)
    scale, offset = (found.squeeze(-1) for found in lines)
    plain = nearest.to(torch.uint8), scale, offset
    integers = _in_turn(weight, scale, offset, columns)
    found = integers, *_refitted(weight, integers, scale, offset, columns)
    worse = _cost(weight, found, columns) > _cost(weight, plain, columns)
    return tuple(
        torch.where(worse.unsqueeze(1), one, other) for one, other in zip(plain, found)
    )


def _in_turn(
    weight: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, columns: Columns
) -> torch.Tensor:
    """Integers uint8 [rows, columns] on the given lines of groups."""
    rows, count = weight.shape
    group = count // scale.shape[1]
    order, factor = columns.order, columns.factor
    # Columns as rows: each step then works on consecutive memory.
    left = weight.t()[order]
    groups = order // group
    slopes, bases = scale.t().float()[groups], offset.t().float()[groups]
    integers = torch.empty((count, rows), dtype=torch.uint8)
    for begin in range(0, count, BLOCK):
        end = min(begin + BLOCK, count)
        now, within = left[begin:end], factor[begin:end, begin:end]
        errors = torch.empty_like(now)
        for at, column in enumerate(now):
            slope, base = slopes[begin + at], bases[begin + at]
            whole = rounded(column, slope, base)
            integers[order[begin + at]] = whole
            error = (column - (whole * slope + base)) / within[at, at]
            errors[at] = error
            now[at + 1 :].addr_(within[at, at + 1 :], error, alpha=-1)
        left[end:].addmm_(factor[begin:end, end:].t(), errors, alpha=-1)
    return integers.t().contiguous()


def _cost(
    weight: torch.Tensor,
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    columns: Columns,
) -> torch.Tensor:
    """The mean squared error of each result: float32 [rows]."""
    integers, scale, offset = found
    group = weight.shape[1] // scale.shape[1]
    whole = integers.float().unflatten(1, (-1, group))
    lines = torch.addcmul(
        offset.float().unsqueeze(-1), whole, scale.float().unsqueeze(-1)
    )
    error = lines.flatten(1) - weight
    return ((error @ columns.products) * error).sum(1)


def _refitted(
    weight: torch.Tensor,
    integers: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor,
    columns: Columns,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and offsets of groups with these integers, each the best one given those
    of the other groups."""
    groups, group = scale.shape[1], weight.shape[1] // scale.shape[1]
    whole = integers.float().view(-1, groups, group)
    slope, base = scale.float(), offset.float()
    lines = whole * slope.unsqueeze(-1) + base.unsqueeze(-1)
    error = lines.flatten(1) - weight
    for _ in range(REFITS):
        for number in range(groups):
            own = slice(number * group, (number + 1) * group)
            q, within = whole[:, number], columns.products[own, own]
            # Half the derivatives of the squared error by the group's weights.
            slant = error @ columns.products[:, own]
            read = q @ within
            squares, sums = (read * q).sum(1), read.sum(1)
            total = within.sum()
            by_slope, by_base = (slant * q).sum(1), slant.sum(1)
            # Zero where the integers are all the same: the offset alone says nothing new.
            area = squares * total - sums.square()
            inverse = torch.where(area > 1e-6 * squares * total, 1 / area, 0)
            more_slope = (sums * by_base - total * by_slope) * inverse
            more_base = (sums * by_slope - squares * by_base) * inverse
            slope[:, number] += more_slope
            base[:, number] += more_base
            error[:, own].addcmul_(q, more_slope.unsqueeze(1)).add_(
                more_base.unsqueeze(1)
            )
    return slope.to(scale.dtype), base.to(offset.dtype)
