"""Reads an FX graph of ATen operators and describes it: GraphReader gives a dict that
is ready for JSON.

docs/design/foundation.md, section 1, defines the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .. import purity
from ..collectives.operators import is_collective, is_wait, waiting
from ..location import location
from ..marks import scope
from ..marks.mark_order import Order, is_order, is_pass
from . import auto_functionalized, effects, shape_checks
from .aliases import Aliases
from .arguments import Arguments
from .description import Description, InputSource
from .inputs import Inputs
from .outputs import Outputs
from .own_operators import own_name
from .regions import calls
from .regions.continuation import RunSizes, call_continuation, with_continuation
from .regions.run_numbers import with_tensors
from .storages import replaced_arguments
from .symbol_table import symbols_of
from .symbols import Unsupported, is_number, number, truth
from .tensors import describe, dtype_name
from .views import overlaps
from .writing_calls import WritingCalls

# Checks that PyTorch made while it traced. They compute nothing.
ASSERTIONS = (
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
)
# How the message of a check begins for which the user has no words.
AUTOMATIC = "Runtime assertion failed"


class GraphReader:
    """Describes one FX graph. Unsupported: the graph has no description."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        name: str,
        sources: Sequence[InputSource],
        order: Order | None = None,
        standalone: bool = False,
        within: calls.Regions | None = None,
    ) -> None:
        """`standalone`: the caller makes no views, so every result is contiguous memory
        of its own. `within`: the graph is a region, one of these."""
        is_region = within is not None
        self.module = with_continuation(with_tensors(module, is_region), standalone)
        self.run_sizes = RunSizes(self.module.graph)
        self.name = name
        self.sources = sources
        self.order = order or Order()
        self.nodes: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.mutations: dict[str, str] = {}
        self.awaited: list[int] = []
        self.aliases = Aliases()
        self.regions = calls.Regions() if within is None else within
        self.is_region = is_region
        self.inputs = Inputs(f"{name}_" if self.is_region else "", standalone)
        self.arguments = Arguments()
        self.writing_calls = WritingCalls(self.inputs, self.arguments, self.nodes)
        self.outputs = Outputs(
            self.inputs,
            self.arguments,
            self.nodes,
            self.aliases,
            standalone,
            self.run_sizes,
        )

    def read(self) -> Description:
        placeholders = 0
        tokens = effects.tokens_of(self.module.graph)
        for node in self.module.graph.nodes:
            placeholders += node.op == "placeholder"
            if node in tokens:
                self.arguments.set_nothing(node)
            elif node.op == "placeholder":
                self._placeholder(node, placeholders - 1)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.outputs.read(node)
            else:
                raise Unsupported(f"a node of the kind {node.op}")
        self.order.finish()
        inputs, outputs = self.inputs, self.outputs
        others = (*outputs.entries, *self.nodes, *self.checks)
        graph = {
            "version": 1,
            "name": self.name,
            "symbols": symbols_of(inputs.entries, others, inputs.shape_env),
            "inputs": inputs.entries,
            "nodes": self.nodes,
            "outputs": outputs.entries,
            "mutations": [
                {"input": target, "value": value}
                for target, value in self.mutations.items()
            ],
        }
        if self.checks:
            graph["checks"] = self.checks
        if self.regions.graphs and not self.is_region:
            graph["regions"] = self.regions.graphs
        return Description(
            graph,
            inputs.constants | self.regions.constants,
            placeholders,
            inputs.passed,
            inputs.copied,
            outputs.views,
            self.aliases.found,
            inputs.owners,
            awaited=self.awaited,
        )

    def read_region(
        self,
        body: torch.fx.GraphModule,
        name: str,
        sources: Sequence[InputSource],
    ) -> Description:
        """Describes a subgraph, for `Regions`."""
        return GraphReader(
            body,
            name,
            sources,
            self.order.of_region(),
            standalone=True,
            within=self.regions,
        ).read()

    # Inputs

    def _placeholder(self, node: torch.fx.Node, position: int) -> None:
        value = node.meta.get("val")
        if not node.users and type(value).__name__ == "FakeScriptObject":
            return  # the mesh of a DTensor, which only AOTAutograd's wrapper reads
        self.aliases.own_input(position, value)
        self.inputs.placeholder(node, position, self.sources[position])

    def _attribute(self, node: torch.fx.Node) -> None:
        if all(user.target in calls.OPERATORS for user in node.users):
            return  # a subgraph, which its operator reads
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"a node reads {node.target}, which is no tensor")
        self.inputs.constant(node, value, InputSource(str(node.target)))

    # Nodes

    def _call(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        target: Any = node.target
        if getattr(target, "__name__", "") == "getitem":
            self._item(node)
        elif auto_functionalized.is_writing(node):
            self._writing(node)
        elif effects.has_effect(node):
            self._effect(node)
        elif is_number(value):
            self.arguments.set_reference(node, number(value))
        elif target in calls.OPERATORS or target is call_continuation:
            self._regions(node)
        elif _is_relation(node):
            return  # the branch, the check or the number that reads it computes it
        elif not isinstance(target, OpOverload):
            raise Unsupported(f"{target} is no ATen operator")
        elif target is torch.ops.aten._assert_scalar.default:
            self._check(node)
        elif target._schema.name.partition("::")[2] in ASSERTIONS:
            return
        elif target is torch.ops.aten.copy_.default:
            self._mutation(node)
        elif is_order(target) and self.is_region:
            raise Unsupported("a wait or an event in a region")
        elif is_order(target):
            self._order(node, target)
        elif is_wait(target):
            self._waited(node)
        elif is_collective(target):
            self._operator(node, waiting(target), value)
        else:
            self._operator(node, target, value)

    def _check(self, node: torch.fx.Node) -> None:
        """Describes what the user asked of a number that the run decides. Dynamo's
        guards check other numbers. Before a check of the user PyTorch puts one of the
        same condition: the words are then the user's."""
        condition, message = node.args
        if not isinstance(condition, torch.fx.Node):
            return
        value = condition.meta["val"]
        if not isinstance(value, torch.SymBool) or not free_unbacked_symbols(value):
            return
        text = str(message).partition(" on node ")[0]
        check = {"expr": truth(value), "message": text, "loc": location(node)}
        for at, earlier in enumerate(self.checks):
            if earlier["expr"] == check["expr"]:
                if earlier["message"].startswith(AUTOMATIC):
                    self.checks[at] = check
                return
        self.checks.append(check)

    def _regions(self, node: torch.fx.Node) -> None:
        """Describes a node that runs subgraphs."""
        entry = calls.describe_call(self, node)
        self._annotate(node, entry)
        self.nodes.append(entry)

    def _waited(self, node: torch.fx.Node) -> None:
        """Handles the wait for a collective. If this graph has the collective, it has
        waited already; otherwise the caller waits."""
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        if source.op == "placeholder":
            placeholders = self.module.graph.find_nodes(op="placeholder")
            self.awaited.append(placeholders.index(source))
        self.arguments.set_reference(node, self.arguments.reference(source))

    def _item(self, node: torch.fx.Node) -> None:
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        if self.writing_calls.take_item(node, source, index):
            return
        if effects.has_effect(source):
            reference = {"ref": source.name}
            if len(source.meta["val"]) > 2:
                reference |= {"result": index - 1}
            self.arguments.set_reference(node, reference)
            return
        base = self.arguments.reference(source)
        if not isinstance(index, int) or "result" in base or "ref" not in base:
            raise Unsupported(f"{node.name} takes an item of what is no list")
        self.arguments.set_reference(node, base | {"result": index})

    def _mutation(self, node: torch.fx.Node) -> None:
        """Describes `copy_` into an input. AOTAutograd puts such writes at the end of a
        graph."""
        target, value = node.args[:2]
        if not (
            isinstance(target, torch.fx.Node)
            and target.op == "placeholder"
            and isinstance(value, torch.fx.Node)
        ):
            raise Unsupported("an in-place write to what is no input")
        old, new = target.meta["val"], value.meta["val"]
        if old.dtype != new.dtype or tuple(old.shape) != tuple(new.shape):
            raise Unsupported(f"a write to {target.name} that converts or broadcasts")
        entry = self.inputs.mutable(target.name)
        if _overlaps_itself(old):
            raise Unsupported(f"a write to {entry['label']}, which overlaps itself")
        entry["mutated"] = True
        self.aliases.own_mutation(old, new)
        self.mutations[target.name] = self._name_of(value)
        self.arguments.set_reference(node, {"ref": target.name})

    def _name_of(self, node: torch.fx.Node) -> str:
        """The name of a tensor's node. A part of a list gets a node of its own, since a
        mutation needs the name of its value."""
        reference = self.arguments.reference(node)
        if "result" not in reference:
            return reference["ref"]
        alias = {
            "name": node.name,
            "op": "aten.alias.default",
            "args": {"self": reference},
            "results": [describe(node.meta["val"])],
            "loc": location(node),
        }
        self.nodes.append(alias)
        self.arguments.set_reference(node, {"ref": node.name})
        return node.name

    def _operator(self, node: torch.fx.Node, target: OpOverload, value: Any) -> None:
        if target._schema.is_mutable:
            raise Unsupported(f"{target} writes in place")
        shape_checks.check(node)
        self._check_reads(node)
        replaced = replaced_arguments(node)
        if replaced is None:
            raise Unsupported(f"{target} of a view reads memory outside of it")
        arguments = self.arguments.of_call(node, target) | {
            name: self.arguments.literal(value) for name, value in replaced.items()
        }
        if target is torch.ops.aten.lift_fresh_copy.default:
            # The node is a copy of a constant: aliases of constants have this operator.
            target = torch.ops.aten.clone.default
            arguments["memory_format"] = None
        entry: dict[str, Any] = {
            "name": node.name,
            "op": own_name(node, target) or _operator_name(target),
            "args": arguments,
            "results": self._results(target, value),
            "loc": location(node),
        }
        # These calls keep their order: those that draw random numbers, those with an
        # effect, and those of user operators, whose schemas may not tell.
        if (
            torch.Tag.nondeterministic_seeded in target.tags
            or not target._schema.returns
            or not purity.tells_effects(target)
        ):
            entry["ordered"] = True
        if is_pass(node):
            entry |= {"op": "anabranch::pass", "ordered": True}
        self._annotate(node, entry)
        self.nodes.append(entry)

    def _check_reads(self, node: torch.fx.Node) -> None:
        if any(source.name in self.mutations for source in _inputs_of(node)):
            raise Unsupported(f"{node.name} reads an input after a write to it")

    def _writing(self, node: torch.fx.Node) -> None:
        """Describes a call of an operator that writes its arguments."""
        self._check_reads(node)
        call = auto_functionalized.read(node)
        entry = self.writing_calls.add(node, _operator_name(call.operator), call)
        self._annotate(node, entry)

    def _effect(self, node: torch.fx.Node) -> None:
        """Describes a call of an operator whose effect a registration declares."""
        self._check_reads(node)
        operator, values = effects.operator_of(node), effects.returned(node)
        given = effects.arguments_of(node, operator)
        entry: dict[str, Any] = {
            "name": node.name,
            "op": _operator_name(operator),
            "args": self.arguments.of_values(node, operator, given),
            "results": self._results(operator, values),
            "ordered": True,
            "loc": location(node),
        }
        self._annotate(node, entry)
        self.nodes.append(entry)

    def _order(self, node: torch.fx.Node, target: OpOverload) -> None:
        """Describes a wait or a record. The description names results only where there
        are some."""
        arguments = self.arguments.of_call(node, target)
        name = target._schema.name
        if target is scope.WAIT:
            self.order.check_wait(node)
            del arguments["strict"]
        elif target is scope.RECORD:
            self.order.record(node)
        elif event := self.order.event_of(node):
            name = "anabranch::wait_event"
            arguments = {"event": self.arguments.reference(event)}
        value = node.meta.get("val")
        entry: dict[str, Any] = {
            "name": node.name,
            "op": name,
            "args": arguments,
            "results": [] if value is None else [describe(value)],
            "ordered": True,
            "loc": location(node),
        }
        self._annotate(node, entry)
        self.nodes.append(entry)

    def _annotate(self, node: torch.fx.Node, entry: dict[str, Any]) -> None:
        if annotations := self.order.annotations(node):
            entry["annotations"] = _plain(annotations)

    def _results(self, target: OpOverload, value: Any) -> list[dict[str, Any]]:
        if not target._schema.returns:
            return []
        values = value if isinstance(value, tuple | list) else [value]
        tensors = [item for item in values if isinstance(item, torch.Tensor)]
        if not tensors:
            raise Unsupported(f"{target} has no tensor among its results")
        for item in values:
            if item is not None and not isinstance(item, torch.Tensor):
                raise Unsupported(f"{target} returns {type(item).__name__}")
        # The description has an undefined tensor as an empty one; no operator can read
        # it.
        undefined = {"dtype": dtype_name(tensors[0].dtype), "shape": [0]}
        return [
            undefined if item is None else self.run_sizes.describe(item)
            for item in values
        ]


def _is_relation(node: torch.fx.Node) -> bool:
    """Whether the node is a relation of numbers, which Python computes."""
    return isinstance(node.meta.get("val"), torch.SymBool | bool) and not isinstance(
        node.target, OpOverload
    )


def _overlaps_itself(value: torch.Tensor) -> bool:
    """Whether elements of the tensor share memory. Symbolic sizes count as not."""
    layout = (*value.shape, *value.stride())
    known = all(isinstance(number, int) for number in layout) and value.numel()
    return bool(known) and overlaps(value.shape, value.stride())


def _inputs_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    return [item for item in node.all_input_nodes if item.op == "placeholder"]


def _operator_name(target: OpOverload) -> str:
    namespace, _, name = target._schema.name.partition("::")
    overload = target._schema.overload_name or "default"
    return f"{namespace}.{name}.{overload}"


def _plain(value: Any) -> Any:
    """Makes a user's annotation ready for JSON: any value that JSON does not have
    becomes its text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
