"""Calls a converter while its operator's node is being traced, and checks its results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_map_only

from anabranch import CompileError
from anabranch.extension import user_line

from .definitions import UnknownOperator
from .types import Node, Tensor, TensorSpec

__all__ = ["Call", "handle"]


class Call:
    """The function that replaces a node of an operator while it is traced."""

    def __init__(self, node: torch.fx.Node, converter: Callable[..., Any]) -> None:
        self.operator: Any = self._operator(node)
        self.__name__ = str(self.operator)
        self.error: Exception | None = None
        self._converter = converter
        self._promised = node.meta["val"]
        self._where = f"{node.name}, a call of {self.operator}"
        line = user_line(node)
        self._end = f"\n  {line}" if line else ""

    def _operator(self, node: torch.fx.Node) -> Any:
        return node.target

    def __str__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._run(args, kwargs)
        except UnknownOperator as error:
            self.error = UnknownOperator(self._text(error))
            raise
        except AssertionError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = CompileError(self._text(error))
            raise

    def _text(self, error: Exception) -> str:
        return f"the converter for {self._where}: {error}{self._end}"

    def _run(self, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, handle, (args, kwargs))
        return self._convert(args, kwargs, self._promised)

    def _convert(self, args: Any, kwargs: Any, promised: Any) -> Any:
        """The converter's results for handles of these arguments, as the operator
        promises them."""
        if "meta_outputs" in inspect.signature(self._converter).parameters:
            specs = tree_map_only(torch.Tensor, TensorSpec, promised)
            kwargs = {**kwargs, "meta_outputs": specs}
        found = self._converter(*args, **kwargs)
        if isinstance(promised, torch.Tensor):
            return self._checked(found, promised, "its result")
        return self._checked_all(found, promised)

    def _checked_all(self, found: Any, promised: Sequence[Any]) -> Any:
        given = list(found) if isinstance(found, list | tuple) else [found]
        if len(given) != len(promised):
            raise CompileError(
                f"it makes {len(given)} results, the operator returns {len(promised)}"
            )
        pairs = enumerate(zip(given, promised))
        return [self._checked(g, p, f"result {i}") for i, (g, p) in pairs]

    def _checked(self, found: Any, promised: Any, what: str) -> Any:
        """The result in the dtype that the operator promises. CompileError: rank or
        sizes differ."""
        if isinstance(promised, list | tuple):
            return self._checked_all(found, promised)
        if promised is None:
            return None
        if isinstance(found, list | tuple) and len(found) == 1:
            (found,) = found
        if not isinstance(found, Tensor):
            raise CompileError(f"{what} is a {type(found).__name__} and no ge.Tensor")
        value = found.value
        if value.dim() != promised.dim():
            raise CompileError(
                f"{what} has rank {value.dim()}, the operator returns rank"
                f" {promised.dim()}"
            )
        if any(_differ(a, b) for a, b in zip(value.shape, promised.shape)):
            raise CompileError(
                f"{what} has sizes {list(value.shape)}, the operator returns"
                f" {list(promised.shape)}"
            )
        return value.to(promised.dtype)


def handle(value: torch.Tensor) -> Tensor:
    return Tensor(Node("Data", [value]))


def _differ(size: Any, promised: Any) -> bool:
    """Whether a size differs. Sizes with symbols are compared when the graph runs."""
    return isinstance(size, int) and isinstance(promised, int) and size != promised
