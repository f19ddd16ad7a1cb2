"""Defines the operators torch.ops.air: marks in a graph, which resolve.py translates.

In eager code marks do nothing. A mark stays in the graph although nobody reads its
result: its effect is the order. `print` is no mark: it prints each time that a graph
runs."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch.fx.node import has_side_effect

from anabranch.extension import wait_if_computed

from . import printing as _printing

__all__ = ["unify"]

_library = torch.library.Library("air", "DEF")


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _empty(*_args: object, **_kwargs: object) -> torch.Tensor:
    return torch.empty(0)


def _define(
    schema: str,
    *,
    value: bool = False,
    run: Callable[..., None] | None = None,
    library: torch.library.Library = _library,
) -> None:
    """`value`: whether the operator returns a tensor. `run`: its kernel, if it does
    something."""
    name = schema.partition("(")[0]
    function = _empty if value else _nothing
    library.define(schema)
    library.impl(name, run or function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::{name}", function, lib=library)
    has_side_effect(getattr(getattr(torch.ops, library.ns), name).default)


_captured = torch.library.Library("npugraph_ex", "DEF")

# The capture path has these marks under a name of its own too; see unify().
for _both in (_library, _captured):
    _define(
        "scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()",
        library=_both,
    )
    _define("scope_exit(bool need_execute=False) -> ()", library=_both)
    _define("record(*, Device? device=None) -> Tensor", value=True, library=_both)
    _define("wait(Tensor[] x) -> ()", library=_both)
# Streams and events of torch.npu. Names stand for the objects.
_define("stream_set(str stream) -> ()")
_define("event_record(str event) -> ()")
_define("event_wait(str event) -> ()")
_define("super_kernel_begin(str scope) -> ()")
_define("super_kernel_end(str scope) -> ()")
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

_SAME = {
    torch.ops.npugraph_ex.scope_enter.default: torch.ops.air.scope_enter.default,
    torch.ops.npugraph_ex.scope_exit.default: torch.ops.air.scope_exit.default,
    torch.ops.npugraph_ex.record.default: torch.ops.air.record.default,
    torch.ops.npugraph_ex.wait.default: torch.ops.air.wait.default,
}


def unify(graph: torch.fx.Graph) -> None:
    """Replaces marks of torch.ops.npugraph_ex by those of torch.ops.air."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in _SAME:
            node.target = _SAME[node.target]
