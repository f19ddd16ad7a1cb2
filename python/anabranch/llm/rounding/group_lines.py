"""The line of each group of weights. A weight becomes an integer from 0 to 15, and its
value is the line's at this integer.

The larger the numbers that a weight multiplies, the more its error costs. So errors are
weighted with the mean square of their column's input."""

from __future__ import annotations

import torch

# Parts of a group's range that the integers may cover. Weights outside of the part move
# to its ends, and the steps between are smaller.
COVERED = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
LEVELS = 15


def fitted(
    groups: torch.Tensor, importance: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and offset of groups: the weighted least squares line through the weights
    and their integers, for the covered part whose error is the least.

    groups      float32 [rows, groups, columns]
    importance  float32 [groups, columns], positive; what a squared error counts

    Returns float32 [rows, groups, 1], twice.
    """
    share = importance / importance.sum(-1, keepdim=True)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    middle, half = (low + high) / 2, (high - low) / 2
    mean = (groups * share).sum(-1, keepdim=True)
    around = groups - mean
    scale, offset = 2 * half / LEVELS, low
    error = torch.full_like(scale, torch.inf)
    for part in COVERED:
        whole = rounded(groups, 2 * half * part / LEVELS, middle - half * part)
        slope, base = _line(whole, around, mean, share)
        whole = rounded(groups, slope, base)
        difference = torch.addcmul(base, whole, slope) - groups
        new = (difference.square_() * share).sum(-1, keepdim=True)
        better = new < error
        scale = torch.where(better, slope, scale)
        offset = torch.where(better, base, offset)
        error = torch.where(better, new, error)
    return scale, offset


def rounded(
    weights: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor
) -> torch.Tensor:
    """The integers nearest to weights; 0 where the scale is 0."""
    inverse = torch.where(scale == 0, 0, 1 / scale)
    return ((weights - offset) * inverse).round_().clamp_(0, LEVELS)


def _line(
    whole: torch.Tensor, around: torch.Tensor, mean: torch.Tensor, share: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slope and value at zero of the line through integers and weights, which are given
    as distances from their mean."""
    centre = (whole * share).sum(-1, keepdim=True)
    counted = (whole - centre).mul_(share)
    covariance = (counted * around).sum(-1, keepdim=True)
    variance = (counted * whole).sum(-1, keepdim=True)
    slope = torch.where(variance > 0, covariance / variance, 0)
    return slope, mean - slope * centre
