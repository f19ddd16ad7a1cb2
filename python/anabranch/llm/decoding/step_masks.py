"""Masks of a step as transformers gives them to a model: one, or one for each kind of
layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

Masks: TypeAlias = "torch.Tensor | dict[str, torch.Tensor | None] | None"


def each(masks: Masks) -> list[torch.Tensor]:
    found = masks.values() if isinstance(masks, dict) else [masks]
    return [mask for mask in found if mask is not None]


def mapped(function: Callable[[torch.Tensor], torch.Tensor], masks: Masks) -> Masks:
    if isinstance(masks, dict):
        return {name: None if m is None else function(m) for name, m in masks.items()}
    return None if masks is None else function(masks)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of a contiguous tensor: a program compares strides, and
    those of dimensions of one element may be any in a view."""
    return tensor.clone(memory_format=torch.contiguous_format)
