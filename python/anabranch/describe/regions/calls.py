"""Describes the regions of a graph: the subgraphs that torch.cond, while_loop, scan and
map run.

Each is a graph of its own in the description's list `regions`. Its inputs are the
operator's operands, as contiguous tensors, and the symbols that it uses. A frozen operand
that stays the same is a constant of the region, so that the region packs it, too.
docs/design/regions.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.fx

from ...location import location
from ..arguments import Arguments
from ..description import Description, InputSource
from ..inputs import Inputs
from ..symbols import Unsupported, integer, numbers_of, truth, word
from ..writing_calls import WritingCalls
from . import updated
from .continuation import GRAPH, RunSizes, call_continuation
from .run_numbers import COND, INVOKE, WHILE

SCAN = torch.ops.higher_order.scan
MAP = torch.ops.higher_order.map_impl
OPERATORS = (COND, WHILE, SCAN, MAP, INVOKE)
NOTHING: updated.Updates = {}


class Regions:
    """The regions of a graph and of its regions, by number. A region has a lower number
    than those inside of it."""

    def __init__(self) -> None:
        self.graphs: list[dict[str, Any]] = []
        self.constants: dict[str, torch.Tensor] = {}


class Reader(Protocol):
    """The reader of the graph around a region."""

    module: torch.fx.GraphModule
    run_sizes: RunSizes
    regions: Regions
    arguments: Arguments
    inputs: Inputs
    writing_calls: WritingCalls

    def read_region(
        self, body: torch.fx.GraphModule, name: str, sources: Sequence[InputSource]
    ) -> Description:
        """Describes a subgraph."""


def describe_call(reader: Reader, node: torch.fx.Node) -> dict[str, Any]:
    """Describes a node that runs regions, and its regions."""
    values = node.meta["val"]
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise Unsupported(f"{node.name} returns what is no tensor")
    call = _RegionCall(reader, node)
    if node.target is call_continuation:
        op, args = "anabranch::call", call.continuation()
    elif node.target is INVOKE:
        op, args = "anabranch::call", call.called()
    elif node.target is COND:
        op, args = "anabranch::cond", call.branch()
    else:
        op, args = "anabranch::loop", call.loop()
    entry: dict[str, Any] = {
        "name": node.name,
        "op": op,
        "args": args,
        "results": [reader.run_sizes.describe(value) for value in values],
        "loc": location(node),
    }
    if call.updates:
        olds = [reader.arguments.reference(old) for old in call.updated_operands()]
        items = updated.add_writes(entry, call.updates, olds)
        reader.writing_calls.set_items(node, items)
    if call.ordered or call.updates:
        entry["ordered"] = True
    return entry


class _RegionCall:
    def __init__(self, reader: Reader, node: torch.fx.Node) -> None:
        self.reader = reader
        self.node = node
        self.ordered = False  # whether a region has calls that keep their order
        # what regions update where it lies, among what a loop carries or a branch gets
        self.updates: updated.Updates = {}
        # Sizes that every region gets after its operands: those of which the operands
        # have only an expression.
        self.sizes = self._missing_sizes()

    def branch(self) -> dict[str, Any]:
        predicate, holds, fails, operands = self.node.args
        sources = self._steady(operands)
        bodies = [self._subgraph(fails), self._subgraph(holds)]
        # A constant has no value that may change.
        before = [
            _value(operand) if source.constant is None else None
            for operand, source in zip(operands, sources)
        ]
        self.updates = updated.find(bodies, before, self.node.meta["val"])
        return {
            "predicate": self._predicate(predicate),
            "regions": [
                self._region(body, sources, self.updates) for body in (fails, holds)
            ],
            "arguments": self._passed(operands, sources, self.updates),
        }

    def loop(self) -> dict[str, Any]:
        condition = None
        carried: Any = ()
        scanned: Any = ()
        if self.node.target is WHILE:
            condition, body, carried, operands = self.node.args
        elif self.node.target is SCAN:
            body, carried, scanned, operands = self.node.args
        else:
            body, scanned, operands = self.node.args
        steady = self._steady(operands)
        first = self._changing(carried)
        before = [_value(operand) for operand in carried]
        after = self.node.meta["val"][: len(carried)]
        found = updated.find([self._subgraph(body)], before, after)
        self.updates = {new: old for new, old in found.items() if new == old}
        inputs = [*first, *self._changing(scanned), *steady]
        return {
            "condition": condition and self._region(condition, [*first, *steady]),
            "trips": None if condition else self._trips(scanned),
            "body": self._region(body, inputs, self.updates),
            "carried": self._references(carried, self.updates),
            "scanned": self.reader.arguments.literal(scanned),
            "arguments": self._passed(operands, steady),
        }

    def _references(
        self, operands: Sequence[Any], updates: updated.Updates
    ) -> list[Any]:
        """The operands, with memories in the place of those that the regions update."""
        memories = {old: number for number, old in enumerate(updates.values())}
        return [
            {"written": memories[place]}
            if place in memories
            else self._argument(operand)
            for place, operand in enumerate(operands)
        ]

    def updated_operands(self) -> list[torch.fx.Node]:
        place = {COND: 3, WHILE: 2}.get(self.node.target, 1)
        operands: Any = self.node.args[place]
        return [operands[old] for old in self.updates.values()]

    def continuation(self) -> dict[str, Any]:
        operands = self.node.args
        sources = self._steady(operands)
        graph = self.node.meta[GRAPH]
        region = self._describe(graph, sources)
        inputs = graph.graph.find_nodes(op="placeholder")
        passed = [
            (operand, given.meta["val"])
            for operand, given, source in zip(operands, inputs, sources)
            if source.constant is None
        ]
        items = [
            place
            for place, (operand, value) in enumerate(passed)
            if isinstance(_value(operand), torch.Tensor)
            and not isinstance(value, torch.Tensor)
        ]
        return {
            "region": region,
            "arguments": self._passed(operands, sources),
            "items": items,
        }

    def called(self) -> dict[str, Any]:
        body, _, *operands = self.node.args
        sources = self._steady(operands)
        return {
            "region": self._region(body, sources),
            "arguments": self._passed(operands, sources),
            "items": [],
        }

    def _trips(self, scanned: Sequence[Any]) -> dict[str, Any]:
        return {"expr": integer(scanned[0].meta["val"].shape[0])}

    def _predicate(self, value: Any) -> Any:
        known = value.meta["val"] if isinstance(value, torch.fx.Node) else value
        if isinstance(known, torch.SymBool | bool):
            return {"expr": truth(known)}
        if known.dtype is not torch.bool:
            raise Unsupported("a predicate that is no bool")
        return self.reader.arguments.reference(value)

    # Inputs of regions

    def _changing(self, operands: Sequence[Any]) -> list[InputSource]:
        """The inputs that get another tensor in each trip."""
        for operand in operands:
            if not isinstance(_value(operand), torch.Tensor):
                raise Unsupported(f"{self.node.name} carries what is no tensor")
        return [InputSource(operand.name) for operand in operands]

    def _steady(self, operands: Sequence[Any]) -> list[InputSource]:
        """The inputs that every run of a region gets alike."""
        inputs = self.reader.inputs
        frozen = {
            entry["name"]: entry["constant"]
            for entry in inputs.entries
            if "constant" in entry
        }
        sources = []
        for operand in (*operands, *self.sizes):
            name = getattr(operand, "name", "number")
            constant = frozen.get(name, "")
            value = inputs.constants.get(constant)
            sources.append(InputSource(name, constant=value, outer_constant=constant))
        return sources

    def _passed(
        self,
        operands: Sequence[Any],
        sources: Sequence[InputSource],
        updates: updated.Updates = NOTHING,
    ) -> list[Any]:
        given = self._references((*operands, *self.sizes), updates)
        return [
            reference
            for reference, source in zip(given, sources)
            if source.constant is None
        ]

    def _missing_sizes(self) -> list[torch.SymInt]:
        named = [node for node in self.node.all_input_nodes if node.op == "get_attr"]
        given = [
            node.meta.get("val")
            for reference in named
            if not _is_tensor(reference)
            for node in self._subgraph(reference).graph.find_nodes(op="placeholder")
        ]
        defined, needed = set(), {}
        for number in numbers_of(given):
            expr, env = number.node.expr, number.node.shape_env
            if expr.is_Symbol:
                defined.add(expr.name)
            for symbol in expr.free_symbols:
                needed[symbol.name] = env.create_symintnode(symbol, hint=None)
        return [needed[name] for name in sorted(needed) if name not in defined]

    def _subgraph(self, reference: torch.fx.Node) -> torch.fx.GraphModule:
        subgraph = self.reader.module.get_submodule(str(reference.target))
        assert isinstance(subgraph, torch.fx.GraphModule)
        return subgraph

    def _argument(self, operand: Any) -> Any:
        value = _value(operand)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return {"expr": word(value)}
        return self.reader.arguments.literal(operand)

    def _region(
        self,
        body: Any,
        sources: Sequence[InputSource],
        updates: updated.Updates = NOTHING,
    ) -> int:
        """Describes the subgraph that `body` names, and returns its number. It updates
        these of its inputs."""
        subgraph = updated.with_writes(self._subgraph(body), updates)
        if self.sizes:
            subgraph = _with_inputs(subgraph, self.sizes)
        return self._describe(subgraph, sources, writes=bool(updates))

    def _describe(
        self,
        subgraph: torch.fx.GraphModule,
        sources: Sequence[InputSource],
        writes: bool = False,
    ) -> int:
        regions, name = self.reader.regions, self.node.name
        number = len(regions.graphs)
        regions.graphs.append({})
        described = self.reader.read_region(subgraph, f"{name}_{number}", sources)
        graph = described.graph
        if graph["mutations"] and not writes:
            raise Unsupported(f"{name} updates an argument")
        if not all("ref" in output for output in graph["outputs"]):
            raise Unsupported(f"{name} returns what is no tensor")
        # A check is wanted even where nobody reads the region's results.
        self.ordered |= "checks" in graph
        self.ordered |= any(item.get("ordered", False) for item in graph["nodes"])
        regions.constants |= described.constants
        regions.graphs[number] = graph
        return number


def _with_inputs(
    subgraph: torch.fx.GraphModule, sizes: Sequence[torch.SymInt]
) -> torch.fx.GraphModule:
    """The subgraph with these sizes as further inputs."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    end = graph.graph_copy(subgraph.graph, copies)
    graph.output(end).meta = dict(subgraph.graph.output_node().meta)
    last = graph.find_nodes(op="placeholder")[-1]
    for size in sizes:
        with graph.inserting_after(last):
            last = graph.placeholder(f"size_{size}")
        last.meta["val"] = size
    return torch.fx.GraphModule(subgraph, graph)


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _value(operand: Any) -> Any:
    return operand.meta.get("val") if isinstance(operand, torch.fx.Node) else operand
