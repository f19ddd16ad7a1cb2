"""The operators torch.ops.air: marks in a graph, which resolve.py translates.

In eager code the marks do nothing. A mark whose result is discarded stays in the graph:
its side effect is the order. `print` is no mark: it prints each time that a graph runs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._guards import detect_fake_mode
from torch.fx.node import has_side_effect

from anabranch.extension import wait_if_computed

from . import printing as _printing

__all__: list[str] = []

_library = torch.library.Library("air", "DEF")


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _empty(*_args: object, **_kwargs: object) -> torch.Tensor:
    return torch.empty(0)


def _define(
    schema: str, *, value: bool = False, run: Callable[..., None] | None = None
) -> None:
    """`value`: the operator returns a tensor. `run`: its kernel, if it does something."""
    name = schema.partition("(")[0]
    function = _empty if value else _nothing
    _library.define(schema)
    _library.impl(name, run or function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"air::{name}", function, lib=_library)
    has_side_effect(getattr(torch.ops.air, name).default)


_define("scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()")
_define("scope_exit(bool need_execute=False) -> ()")
_define("record(*, Device? device=None) -> Tensor", value=True)
_define("wait(Tensor[] x) -> ()")
_define("tagged_event_record(str tag) -> ()")
_define("tagged_event_wait(str tag) -> ()")
_define("record_tagged_stream(Tensor input, str tagged_stream) -> ()")
_define(
    "print(Tensor[] tensors, str msg_format, str placeholder, int summarize_size,"
    " bool tensor_detail) -> ()",
    run=_printing.print_now,
)

_library.define("wait_tensor(Tensor self, Tensor dependency) -> Tensor")


@torch.library.impl(_library, "wait_tensor", "CompositeImplicitAutograd")
def _wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    if detect_fake_mode((self, dependency)) is None:
        raise NotImplementedError(WAIT_TENSOR_ELSEWHERE)
    return wait_if_computed(self, dependency)


WAIT_TENSOR_ELSEWHERE = (
    "torch.ops.air.wait_tensor kernel_impl is not implemented! npu_wait_tensor is"
    " not support in this mode."
)
