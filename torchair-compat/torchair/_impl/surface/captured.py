"""Packs of a value in the trace and its value on the device, which serving code replaces.

A capture on an NPU runs each node on both. This host traces once, so nothing here is on the
way of a compilation; vllm-ascend replaces these names before it compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = [
    "NpuGraphConverter",
    "ValuePack",
    "is_symlist",
    "unpack_meta",
    "unpack_meta_list",
]


class ValuePack:
    """A value in the trace (`meta`), and on the device (`npu`)."""

    def __init__(self, meta: Any, npu_meta: Any = None) -> None:
        self.meta = meta
        self.npu = meta if npu_meta is None else npu_meta


def is_symlist(values: Any) -> bool:
    """Whether a list has numbers alone, a symbolic one among them."""
    if not isinstance(values, list | tuple) or not values:
        return False
    numbers = all(isinstance(value, int | torch.SymInt) for value in values)
    return numbers and any(isinstance(value, torch.SymInt) for value in values)


def unpack_meta_list(values: Sequence[Any]) -> list[Any]:
    return [_meta(value) for value in values]


def unpack_meta(
    args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with the values that packs have in the trace."""
    named = {key: _meta(value) for key, value in kwargs.items()}
    return [_meta(value) for value in args], named


def _meta(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_meta, value))
    return value.meta if isinstance(value, ValuePack) else value


class NpuGraphConverter:
    """A pass over a graph that runs each node in the trace and on the device."""

    def _unpack_npu(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        named = {key: _npu(value) for key, value in kwargs.items()}
        return [_npu(value) for value in args], named


def _npu(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_npu, value))
    return value.npu if isinstance(value, ValuePack) else value
