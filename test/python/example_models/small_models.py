"""Shared by tests of models: a small configuration, words, and the tensors of an
output."""

from __future__ import annotations

import torch

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
}


def words(length: int = 7) -> torch.Tensor:
    return torch.randint(0, 99, (2, length))


def tensors(value):
    """The floating-point tensors of a model's output, in order."""
    if isinstance(value, torch.Tensor):
        return [value.float()] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for element in value for tensor in tensors(element)]
