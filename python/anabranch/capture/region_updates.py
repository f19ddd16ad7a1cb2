"""Makes results of the new values that a region writes into its arguments.

Functionalization leaves the writes at the end of a subgraph, and wraps the call:

    Before: %r = auto_functionalized_v2(cond, pred=%p, true_fn=%f, false_fn=%g,
                                        _operand0_base_index=0, _all_bases=[%x])
            f(a): copy_(a, a + 1); return a * 2
    After:  %r = cond(%p, %f', %g', (%x,))
            f'(a): return a * 2, a + 1

The items of %r stay the same: the results, then the new values. A loop carries what its
body writes. `inlining.py` and the description see regions that write nothing."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from ..describe.auto_functionalized import View, pop_view
from ..describe.regions.run_numbers import COND, INVOKE, WHILE

aten = torch.ops.aten

# The arguments that name subgraphs, and the lists of operands, of each operator.
_SUBGRAPHS = {
    COND: ("true_fn", "false_fn"),
    WHILE: ("cond_fn", "body_fn"),
    INVOKE: ("subgraph",),
}
_OPERANDS = {
    COND: ("operand",),
    WHILE: ("carried_input", "additional_input"),
    INVOKE: ("arg",),
}


def return_updates(module: GraphModule) -> None:
    """Changes the calls in an ATen graph, those inside of regions too. A call stays as
    it is where two arguments are one memory, or a loop's body writes what it carries."""
    for child in list(module.children()):
        if isinstance(child, GraphModule):
            return_updates(child)
    calls = [
        node
        for node in module.graph.find_nodes(
            op="call_function", target=auto_functionalized_v2
        )
        if node.args[0] in _SUBGRAPHS
    ]
    if not calls:
        return
    with _disable_current_modes():
        for node in calls:
            _Call(module, node).change()
    for reader in module.graph.find_nodes(op="get_attr"):
        if not reader.users:
            module.graph.erase_node(reader)
    module.recompile()


class _Call:
    """A call of an operator whose subgraphs write."""

    def __init__(self, module: GraphModule, node: Node) -> None:
        self.module = module
        self.node = node
        self.operator: Any = node.args[0]
        self.kwargs = dict(node.kwargs)
        self.bases: list[Node] = list(self.kwargs.pop("_all_bases"))
        values = node.meta["val"]
        self.results = len(values) - len(self.bases)
        # of each written operand, by its name: its base, and where it lies there
        self.written: dict[str, tuple[int, View | None]] = {}
        for key in [key for key in self.kwargs if key.endswith("_base_index")]:
            prefix = key.removesuffix("_base_index")
            base = self.kwargs.pop(key)
            view = pop_view(self.kwargs, prefix, values[self.results + base])
            self.written[prefix.removeprefix("_")] = base, view

    def change(self) -> None:
        names = [self._names(prefix) for prefix in _OPERANDS[self.operator]]
        flat = [name for group in names for name in group]
        written = [name for name in flat if name in self.written]
        places = [flat.index(name) for name in written]
        if not self._can_change(names):
            return
        graph = self.node.graph
        with graph.inserting_before(self.node):
            operands = [self._operand(name) for name in flat]
        subgraphs = [
            self._subgraph(self.kwargs[name], places, len(names[0]))
            for name in _SUBGRAPHS[self.operator]
        ]
        with graph.inserting_before(self.node):
            call = graph.call_function(
                self.operator, self._arguments(subgraphs, operands, names)
            )
        call.meta = dict(self.node.meta)
        kept = [self.node.meta["val"][at] for at in range(self.results)]
        new = [operands[place].meta["val"] for place in places]
        call.meta["val"] = (*kept, *new)
        self._give_results(call, written)

    def _names(self, prefix: str) -> list[str]:
        """The names of the operands in one list of them, in order."""
        found = [
            name
            for name in (*self.kwargs, *self.written)
            if re.fullmatch(rf"{prefix}\d+", name)
        ]
        return sorted(found, key=lambda name: int(name.removeprefix(prefix)))

    def _can_change(self, names: Sequence[Sequence[str]]) -> bool:
        bases = [base for base, _ in self.written.values()]
        carries = self.operator is WHILE and any(n in self.written for n in names[0])
        bodies = [self._body(self.kwargs[n]) for n in _SUBGRAPHS[self.operator]]
        return (
            not carries
            and sorted(bases) == list(range(len(self.bases)))
            and all(map(_writes_inputs_last, bodies))
        )

    def _body(self, reference: Node) -> GraphModule:
        body = self.module.get_submodule(str(reference.target))
        assert isinstance(body, GraphModule)
        return body

    def _operand(self, name: str) -> Any:
        if name not in self.written:
            return self.kwargs[name]
        base, view = self.written[name]
        source = self.bases[base]
        if view is None:
            return source
        place = (view.sizes, view.strides, view.offset)
        made = self.node.graph.call_function(aten.as_strided.default, (source, *place))
        value = source.meta["val"].as_strided(*map(_numbers, place))
        made.meta = {**self.node.meta, "val": value}
        return made

    def _subgraph(self, reference: Node, places: Sequence[int], carried: int) -> Node:
        """A reference to the subgraph that returns what this one writes."""
        name = f"{reference.target}_returns_{'_'.join(map(str, places))}"
        if not hasattr(self.module, name):
            body = _copy(self._body(reference))
            inputs = body.graph.find_nodes(op="placeholder")
            is_condition = reference is self.kwargs.get("cond_fn")
            _return_writes(body, [inputs[place] for place in places], is_condition)
            if self.operator is WHILE:
                _move_inputs(inputs, carried, places)
            setattr(self.module, name, body)
        with self.node.graph.inserting_before(self.node):
            return self.node.graph.get_attr(name)

    def _arguments(
        self,
        subgraphs: Sequence[Node],
        operands: Sequence[Any],
        names: Sequence[Sequence[str]],
    ) -> tuple[Any, ...]:
        if self.operator is COND:
            return (self.kwargs["pred"], *subgraphs, tuple(operands))
        if self.operator is INVOKE:
            return (*subgraphs, self.kwargs["identifier"], *operands)
        first = len(names[0])
        rest = list(zip(names[1], operands[first:]))
        moved = [operand for name, operand in rest if name in self.written]
        steady = [operand for name, operand in rest if name not in self.written]
        return (*subgraphs, (*operands[:first], *moved), tuple(steady))

    def _give_results(self, call: Node, written: Sequence[str]) -> None:
        """Makes readers of items read those of the new call."""
        of_base = {self.written[n][0]: (at, n) for at, n in enumerate(written)}
        graph = self.node.graph
        for reader in list(self.node.users):
            index = reader.args[1]
            if index < self.results:
                reader.replace_input_with(self.node, call)
                continue
            at, name = of_base[index - self.results]
            view = self.written[name][1]
            with graph.inserting_before(reader):
                value = graph.call_function(operator.getitem, (call, self.results + at))
                value.meta = {**reader.meta, "val": call.meta["val"][self.results + at]}
                if view is not None:
                    base = self.bases[index - self.results]
                    place = (view.sizes, view.strides, view.offset)
                    value = graph.call_function(
                        aten.as_strided_scatter.default, (base, value, *place)
                    )
                    value.meta = dict(reader.meta)
            reader.replace_all_uses_with(value)
            graph.erase_node(reader)
        graph.erase_node(self.node)


def _writes_inputs_last(body: GraphModule) -> bool:
    """Whether all that the subgraph writes are inputs, each once."""
    targets = [node.args[0] for node in _writes(body)]
    return len(set(targets)) == len(targets) and all(
        isinstance(target, Node) and target.op == "placeholder" for target in targets
    )


def _writes(body: GraphModule) -> list[Node]:
    found = body.graph.find_nodes(op="call_function", target=aten.copy_.default)
    return list(found)


def _copy(body: GraphModule) -> GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(body.graph, {})).meta = dict(
        body.graph.output_node().meta
    )
    return GraphModule(body, graph)


def _return_writes(
    body: GraphModule, inputs: Sequence[Node], is_condition: bool
) -> None:
    """Removes the writes, and returns the new values of these inputs. The condition of a
    loop returns one value."""
    end = body.graph.output_node()
    new: dict[Node, Node] = {}
    for write in _writes(body):
        target, value = write.args[:2]
        assert isinstance(target, Node) and isinstance(value, Node)
        new[target] = value
        write.replace_all_uses_with(value)
        body.graph.erase_node(write)
    if is_condition:
        return
    results = end.args[0]
    assert isinstance(results, Sequence)
    with body.graph.inserting_before(end):
        values = [new.get(given) or _clone(body.graph, given) for given in inputs]
    end.args = ((*results, *values),)
    end.meta["val"] = tuple(
        item.meta.get("val") if isinstance(item, Node) else item for item in end.args[0]
    )


def _clone(graph: torch.fx.Graph, node: Node) -> Node:
    made = graph.call_function(aten.clone.default, (node,))
    made.meta = {**node.meta, "val": torch.empty_like(node.meta["val"])}
    return made


def _move_inputs(inputs: Sequence[Node], carried: int, places: Sequence[int]) -> None:
    """Puts the inputs at these places after the carried ones."""
    last = inputs[carried - 1]
    for place in places:
        if inputs[place] is not last:
            last.append(inputs[place])
        last = inputs[place]


def _numbers(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_numbers(item) for item in value]
    return value.meta["val"] if isinstance(value, Node) else value
