"""Calls converters of operators that write to their inputs.

Before: %r = auto_functionalized_v2(mylib.accumulate.default, y=%y, _x_base_index=0,
        _all_bases=[%b]); %r[0] is what it returns, %r[1] is %b after the call
After:  the operators of the converter's IR nodes, and %b with what they have written
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.auto_functionalize import (
    AsStridedViewInfo,
    SliceViewInfo,
    auto_functionalized_v2,
    get_mutable_args,
    read_view_information_from_args,
)
from torch.utils._pytree import tree_map_only

from anabranch import CompileError

from .calls import Call, handle

__all__ = ["WritingCall", "is_writing"]


def is_writing(node: torch.fx.Node) -> bool:
    """Whether the node is the functionalized call of an operator that writes."""
    return node.target is auto_functionalized_v2


class WritingCall(Call):
    """The function that replaces this node. Its results are the operator's, then each
    tensor that the operator may write, with its new value."""

    def _operator(self, node: torch.fx.Node) -> Any:
        return node.args[0]

    def _run(self, args: Any, kwargs: Any) -> Any:
        given = dict(kwargs)
        bases = list(given.pop("_all_bases"))
        views = read_view_information_from_args(
            *get_mutable_args(self.operator), given, bases
        )
        self._check_views(views)
        given = tree_map_only(torch.Tensor, handle, given)
        for name, view in views.items():
            given[name] = _regenerated(view, bases)
        order = [a.name for a in self.operator._schema.arguments if not a.kwarg_only]
        args = [given[name] for name in order if name in given]
        named = {n: value for n, value in given.items() if n not in order}
        count = len(self.operator._schema.returns)
        promised = list(self._promised[:count])
        results: Sequence[Any] = [None]
        if count == 0:
            self._converter(*args, **named)
        elif count == 1:
            results = [self._convert(args, named, promised[0])]
        else:
            results = self._convert(args, named, promised)
        wrote = False
        for name, view in views.items():
            for part, one in zip(_each(view), _each(given[name])):
                if one.written is not None:
                    at, wrote = part.base_index, True
                    bases[at] = _with(bases[at], part, one.written)
        if not wrote:
            raise CompileError(
                f"{self.operator} writes to {', '.join(views)}, and no IR node of its"
                " converter does, as Assign and ScatterUpdate do"
            )
        return (*results, *bases)

    def _check_views(self, views: dict[str, Any]) -> None:
        """CompileError: two written arguments are views of one tensor."""
        places = [part.base_index for view in views.values() for part in _each(view)]
        if len(set(places)) != len(places):
            raise CompileError(
                f"{', '.join(views)} are views of one tensor, which converters can't"
                " write to both: give the operator copies"
            )


def _each(value: Any) -> list[Any]:
    """The values of an argument: those of a list, one, or none."""
    parts = value if isinstance(value, list | tuple) else [value]
    return [part for part in parts if part is not None]


def _regenerated(view: Any, bases: Sequence[torch.Tensor]) -> Any:
    if isinstance(view, list):
        return [_regenerated(part, bases) for part in view]
    return None if view is None else handle(view.regenerate_view(list(bases)))


def _with(base: torch.Tensor, view: Any, value: torch.Tensor) -> torch.Tensor:
    """The base, after the value was written to its view."""
    if isinstance(view, SliceViewInfo):
        return torch.slice_scatter(base, value, view.dim, view.start, view.end)
    if isinstance(view, AsStridedViewInfo):
        return torch.as_strided_scatter(
            base, value, view.size, view.stride, view.storage_offset
        )
    return value
