"""Finds what a score function multiplies a score by, adds to it, and hides.

The kernel of attention takes these as its scale and its mask. The function is run with a
`Linear` in the place of the score:

    where(causal, score * 2 + bias, -inf)    Linear(factor=2, bias=bias, shown=causal)"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from .positions import AtPositions, Places, broadcasts

aten = torch.ops.aten


class NotLinear(Exception):
    """The function does more with a score."""


@dataclasses.dataclass(frozen=True)
class Linear:
    """`factor * score + bias` where `shown`, and minus infinity elsewhere."""

    factor: float = 1.0
    bias: Tensor | None = None
    shown: Tensor | None = None

    def times(self, number: Any) -> Linear:
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise NotLinear
        # Minus infinity stays what it is for positive numbers only.
        if number == 0 or (self.shown is not None and number < 0):
            raise NotLinear
        bias = None if self.bias is None else self.bias * number
        return Linear(self.factor * number, bias, self.shown)

    def plus(self, added: Tensor) -> Linear:
        bias = added if self.bias is None else self.bias + added
        return Linear(self.factor, bias, self.shown)

    def where(self, shown: Tensor) -> Linear:
        return Linear(self.factor, self.bias, both(self.shown, shown))


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """Where two masks show a key. None shows all."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def read(
    body: GraphModule, places: Places, captured: Sequence[Any], wide: torch.dtype
) -> Linear:
    """The linear form of a score function of scores with dtype `wide`. NotLinear: more than
    a `Linear` says."""
    if not broadcasts(body, 5):
        raise NotLinear
    result = _Reader(body, places, wide).run(Linear(), *places, *captured)
    if not isinstance(result, Linear):
        raise NotLinear
    return result


class _Reader(AtPositions):
    def __init__(self, body: GraphModule, places: Places, wide: torch.dtype) -> None:
        super().__init__(body, places)
        self.wide = wide

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if not any(isinstance(value, Linear) for value in args):
            return super().run_node(n)
        rule = getattr(self, _RULES.get(n.target, ""), None)
        if rule is None:
            raise NotLinear
        return rule(n, args, kwargs)

    def add(self, _: Node, args: Any, kwargs: Any) -> Linear:
        score, other = args if isinstance(args[0], Linear) else reversed(args)
        alpha = kwargs.get("alpha", 1)
        if score is args[1]:
            return score.times(alpha).plus(self._added(other, 1))
        return score.plus(self._added(other, alpha))

    def sub(self, _: Node, args: Any, kwargs: Any) -> Linear:
        alpha = kwargs.get("alpha", 1)
        if isinstance(args[0], Linear):
            return args[0].plus(self._added(args[1], -alpha))
        return args[1].times(-alpha).plus(self._added(args[0], 1))

    def mul(self, _: Node, args: Any, __: Any) -> Linear:
        score, number = args if isinstance(args[0], Linear) else reversed(args)
        return score.times(number)

    def div(self, _: Node, args: Any, kwargs: Any) -> Linear:
        score, number = args
        if not isinstance(number, int | float) or number == 0 or kwargs:
            raise NotLinear
        return score.times(1 / number)

    def neg(self, _: Node, args: Any, __: Any) -> Linear:
        return args[0].times(-1)

    def where(self, node: Node, args: Any, __: Any) -> Linear:
        condition, chosen, other = args
        if isinstance(chosen, Linear) and self._hides(node.args[2]):
            return chosen.where(condition)
        if isinstance(other, Linear) and self._hides(node.args[1]):
            return other.where(~condition)
        raise NotLinear

    def convert(self, _: Node, args: Any, kwargs: Any) -> Linear:
        if kwargs.get("dtype", args[-1]) != self.wide:
            raise NotLinear
        return args[0]

    def _added(self, value: Any, alpha: Any) -> Tensor:
        """The summand of scores, with the dimensions of positions."""
        if isinstance(value, Linear) or not isinstance(alpha, int | float):
            raise NotLinear
        if isinstance(value, Tensor):
            added = value.to(self.wide)
        else:
            added = torch.full([], value, dtype=self.wide)
        if not added.dim():
            added = added.view(1, 1, 1, 1)
        return added if alpha == 1 else added * alpha

    def _hides(self, node: Any) -> bool:
        """Whether a node is the constant minus infinity."""
        if not isinstance(node, Node):
            return node == -math.inf
        if node.op == "get_attr":
            value = self.fetch_attr(str(node.target))
            with _disable_current_modes():
                return not value.dim() and value.item() == -math.inf
        if node.target in _COPIES:
            return self._hides(node.args[0])
        if node.target not in (aten.full.default, aten.scalar_tensor.default):
            return False
        return node.args[-1] == -math.inf


_COPIES = (
    aten._to_copy.default,
    torch.ops.prims.convert_element_type.default,
    aten.lift_fresh_copy.default,
    aten.clone.default,
)

# The rule of `_Reader` for each operator that may get a score.
_RULES = {
    aten.add.Tensor: "add",
    aten.sub.Tensor: "sub",
    aten.mul.Tensor: "mul",
    aten.div.Tensor: "div",
    aten.neg.default: "neg",
    aten.where.self: "where",
    aten._to_copy.default: "convert",
    torch.ops.prims.convert_element_type.default: "convert",
}
