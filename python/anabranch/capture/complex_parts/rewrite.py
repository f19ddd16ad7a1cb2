"""Rewrites the complex operators of a graph as operators of real tensors.

    Before: %z = mul(%x, %y)                     complex64
            %a = abs(%z)
    After:  %x_re = select(view_as_real(%x), -1, 0), and so on for the other parts
            %z_re = sub(mul(%x_re, %y_re), mul(%x_im, %y_im))
            %z_im = add(mul(%x_re, %y_im), mul(%x_im, %y_re))
            %a = hypot(%z_re, %z_im)

So kernels compute complex numbers, and fuse what they fuse of real ones. An operator
without a rule reads and makes complex tensors, and PyTorch runs it: `view_as_complex` and
`view_as_real` stand around it.

A tensor whose conjugation or negation is pending gets `meta["val"]` without the mark: the
parts have the values that the mark promises."""

from __future__ import annotations

import cmath
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from ...describe.symbols import names
from ...describe.tensors import foreign_strides
from .. import handmade
from ..aot import all_decompositions
from . import (  # noqa: F401 - they fill RULES
    arithmetic,
    functions,
    moves,
    products,
    transforms,
)
from .values import PART_DTYPES, RULES, Complex

aten = torch.ops.aten


class _NoRule(Exception):
    """A rule does not cover the arguments of a call."""


def rewrite(module: torch.fx.GraphModule) -> None:
    """Rewrites the complex operators of an ATen graph, those of its subgraphs too."""
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            rewrite(child)
    nodes = list(module.graph.nodes)
    if not any(_is_complex(node) or _is_marked(node) for node in nodes):
        return
    if any(map(_must_keep_mark, nodes)):
        return  # the description refuses such an input
    work = _Rewriter(module)
    for node in nodes:
        work.visit(node)
    work.finish()


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _is_complex(node: Any) -> bool:
    """Whether a node makes a complex tensor, or a list with one."""
    value = _value(node)
    values = value if isinstance(value, list | tuple) else [value]
    return any(getattr(item, "dtype", None) in PART_DTYPES for item in values)


def _is_marked(node: Any) -> bool:
    value = _value(node)
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def _must_keep_mark(node: Node) -> bool:
    """Whether this is a marked input that the graph writes, or that the caller copies,
    which applies the mark."""
    if node.op != "placeholder" or not _is_marked(node):
        return False
    strides = foreign_strides(node.meta["val"]) or []
    return any(map(names, strides)) or any(
        user.target is aten.copy_.default and user.args[0] is node
        for user in node.users
    )


class _Rewriter:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.completion = handmade.Completion(module)
        # The parts of nodes that rules compute, and of those whose parts are read.
        self.parts: dict[Node, Complex] = {}
        # The complex tensors of nodes that rules compute, where they are read.
        self.joined: dict[Node, Node] = {}
        # The parts that nodes stack, as `view_as_real` does.
        self.pairs: dict[Any, Complex] = {}
        self.traces: dict[str, torch.fx.GraphModule] = {}
        self.replaced: set[Node] = set()
        self.added: set[Node] = set()

    def visit(self, node: Node) -> None:
        if node.op == "placeholder":
            self._unmark_input(node)
        elif self._is_part(node):
            self._replace(node, self.pairs[node.args[0]][node.args[2]])
            self.replaced.add(node)
        elif node.op == "call_function" and self._has_rule(node):
            try:
                self._rewrite(node)
            except _NoRule:
                self._keep(node)
        else:
            self._keep(node)

    def finish(self) -> None:
        """Removes what nobody reads."""
        for node in reversed(self.module.graph.nodes):
            if not node.users and (node in self.replaced or node in self.added):
                self.module.graph.erase_node(node)
        self.module.graph.lint()
        self.module.recompile()

    def _unmark_input(self, node: Node) -> None:
        """Reads the memory of an input that is conjugate or negative by a mark alone."""
        value = node.meta.get("val")
        if not _is_marked(node):
            return
        with self.completion.mode:
            node.meta["val"] = (
                value.conj() if value.is_conj() else torch._neg_view(value)
            )
        if value.is_conj():
            re, im = self._parts(node)
            im = self._add(_after(im), node, aten.neg.default, im)
            self.parts[node] = Complex(re, im)
            self.replaced.add(node)
        else:
            made = self._add(_after(node), node, aten.neg.default, node)
            node.replace_all_uses_with(made, lambda user: user is not made)

    # Operators with a rule

    def _has_rule(self, node: Node) -> bool:
        if not (_is_complex(node) or any(map(_is_complex, node.all_input_nodes))):
            return node.target is aten._neg_view.default
        if node.target is operator.getitem:
            return node.args[0] in self.parts
        if any(map(_has_no_parts, (node, *node.all_input_nodes))):
            return False
        return (
            node.target in RULES
            or node.target in moves.EACH_PART
            or (node.target is aten.view_as_real.default and node.args[0] in self.parts)
        )

    def _rewrite(self, node: Node) -> None:
        if node.target is operator.getitem:
            self.parts[node] = self._each_part(node, (0,))
        elif node.target in moves.EACH_PART:
            self.parts[node] = self._each_part(node, moves.EACH_PART[node.target])
        elif node.target is aten.view_as_real.default:
            parts = self._parts(node.args[0])
            self._replace(node, self._stack(node, node, parts))
        elif any(map(_is_infinite, node.args)):
            raise _NoRule
        else:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._read)
            made = self._trace(node, RULES[node.target], args, kwargs)
            if _is_complex(node):
                self.parts[node] = Complex(*made)
            else:
                self._replace(node, made)
        self.replaced.add(node)

    def _is_part(self, node: Node) -> bool:
        """Whether a node reads one part of a value that a rule computes: the trace has
        `z.real` as `select(view_as_real(z), -1, 0)`."""
        if node.target is not aten.select.int or not isinstance(node.args[0], Node):
            return False
        pairs, dim, _ = node.args
        return (
            pairs in self.pairs
            and dim in (-1, _value(pairs).dim() - 1)
            and node.args[2] in (0, 1)
        )

    def _read(self, node: Node) -> Any:
        return self._parts(node) if _is_complex(node) else node

    def _parts(self, node: Node) -> Complex:
        """The parts of a complex tensor. Those of a tensor that PyTorch makes are read
        where it is made."""
        if node not in self.parts:
            place = _after(node)
            pairs = self._add(place, node, aten.view_as_real.default, node)
            if node.op == "placeholder" and node.users:
                # An input has no line of the user's; its first reader has.
                reader = next(iter(node.users)).meta
                pairs.meta |= {k: v for k, v in reader.items() if k == "stack_trace"}
            dim = pairs.meta["val"].dim() - 1
            self.parts[node] = Complex(
                self._add(place, node, aten.select.int, pairs, dim, 0),
                self._add(place, node, aten.select.int, pairs, dim, 1),
            )
        return self.parts[node]

    def _each_part(self, node: Node, positions: Sequence[int]) -> Complex:
        """Calls the operator of `node` once for each part of its arguments at these
        positions."""
        args = list(node.args)
        for position in positions:
            if position < len(args):
                args[position] = torch.fx.node.map_arg(
                    args[position], lambda read: self._widened(read, node)
                )
        if not _is_complex(node):
            raise _NoRule
        return Complex(
            *(
                self._add(node, node, node.target, *_taken(args, part), **node.kwargs)
                for part in ("re", "im")
            )
        )

    def _widened(self, node: Node, place: Node) -> Complex:
        if _is_complex(node):
            return self._parts(node)
        return Complex(*self._trace(place, moves.real_as_complex, (node,), {}))

    def _trace(self, place: Node, function: Any, args: Any, kwargs: Any) -> Any:
        """Puts the nodes of a trace of `function` in front of `place`, and returns
        those of its result."""
        inputs: list[Node] = []
        torch.fx.node.map_arg((args, kwargs), inputs.append)
        inputs = [n for n in dict.fromkeys(inputs) if handmade.is_traced(_value(n))]
        result = _value(place)

        def call(*values: Any) -> Any:
            known = dict(zip(inputs, values))
            given = torch.fx.node.map_arg(
                (args, kwargs), lambda n: known[n] if n in known else _value(n)
            )
            return _plain(function(*given[0], **given[1]), result)

        def spelled(node: Node) -> str:
            place = inputs.index(node) if node in inputs else -1
            return f"{place}: {_layout(node)}"

        key = str((function, torch.fx.node.map_arg((args, kwargs), spelled), result))
        if key not in self.traces:
            with self.completion.mode, torch.no_grad():
                made = make_fx(call, all_decompositions())
                self.traces[key] = made(*map(_value, inputs))
        part = self.traces[key]
        copied = self.completion.copy(part, inputs, place)
        for inner, node in copied.items():
            if inner.op != "placeholder":
                node.meta["val"] = self._apart(node.meta["val"])
                self._adopt(node, place)
        return torch.fx.node.map_arg(part.graph.output_node().args[0], copied.get)

    def _add(
        self, place: Node, origin: Node, target: Any, *args: Any, **kwargs: Any
    ) -> Node:
        """Adds a call in front of `place`, at the user's line of `origin`."""
        with self.module.graph.inserting_before(place):
            node = self.module.graph.call_function(target, args, kwargs)
        node.meta["val"] = self.completion.run(node, target)
        self._adopt(node, origin)
        return node

    def _adopt(self, node: Node, origin: Node) -> None:
        notes = {k: note for k, note in origin.meta.items() if k != "tensor_meta"}
        node.meta = notes | {"val": node.meta["val"]}
        self.added.add(node)

    def _replace(self, node: Node, made: Node) -> None:
        """Has readers of a real tensor read that of a rule. It keeps the strides of the
        trace, which outputs promise."""
        if made in self.added and not _is_marked(node):
            made.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(made)

    # Operators without a rule

    def _keep(self, node: Node) -> None:
        for read in list(node.all_input_nodes):
            if read in self.replaced and read in self.parts:
                node.replace_input_with(read, self._join(read))
        if _is_marked(node):
            node.meta["val"] = self._unmarked(node.meta["val"])

    def _join(self, node: Node) -> Node:
        """The complex tensor of a node that a rule computes."""
        if node not in self.joined:
            parts = self.parts[node]
            place = _after(max(parts))
            pairs = self._stack(place, node, parts)
            made = self._add(place, node, aten.view_as_complex.default, pairs)
            made.meta["val"] = self._unmarked(node.meta["val"])
            self.joined[node] = made
        return self.joined[node]

    def _stack(self, place: Node, origin: Node, parts: Complex) -> Node:
        dim = parts.re.meta["val"].dim()
        pairs = self._add(place, origin, aten.stack.default, list(parts), dim)
        self.pairs[pairs] = parts
        return pairs

    def _unmarked(self, value: torch.Tensor) -> torch.Tensor:
        """A tensor like this without marks. If it has one, it is other memory."""
        return self._apart(value) if value.is_conj() or value.is_neg() else value

    def _apart(self, value: Any) -> Any:
        """A tensor like this in other memory. Nodes that are copies of one trace must not
        seem to share theirs."""
        if not isinstance(value, torch.Tensor):
            return value
        with self.completion.mode:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )


def _after(node: Node) -> Node:
    """The first place in the graph where the node may be read."""
    place = node.next
    while place.op == "placeholder":
        place = place.next
    return place


def _has_no_parts(node: Node) -> bool:
    """Whether the value is complex32, which PyTorch alone computes."""
    return getattr(_value(node), "dtype", None) is torch.complex32


def _is_infinite(value: Any) -> bool:
    """Whether this is a complex number of which PyTorch makes NaNs: it multiplies the
    number by alpha, and infinity by the zero of alpha's imaginary part."""
    return isinstance(value, complex) and not cmath.isfinite(value)


def _taken(value: Any, part: str) -> Any:
    """The arguments with one part of each complex one."""
    if isinstance(value, Complex):
        return getattr(value, part)
    if isinstance(value, list | tuple):
        return [_taken(item, part) for item in value]
    return value


def _plain(value: Any, result: Any) -> Any:
    """The result of a rule, with the dtype of the operator's result."""
    if value is NotImplemented:
        raise _NoRule
    if not isinstance(value, Complex):
        return value
    kind = PART_DTYPES[result.dtype]
    return value.re.to(kind), value.im.to(kind)


def _layout(node: Node) -> Any:
    value = _value(node)
    if not isinstance(value, torch.Tensor):
        return str(value)
    return str((value.dtype, value.shape, value.stride()))
