"""Makes the picture of an ATen graph: the graph of operators that dumps and logs show.

Nodes have the graph engine's names (`MatMul`, `Data`, `NetOutput`). Inputs are text:
`producer:index`, or `producer:-1` for an edge that only orders. Scopes are attributes.
Nothing runs from the picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from anabranch.extension import is_order_operator, is_wait_result

from ..log import logger
from ..marks.attributes import FLAGS, STREAM, SUPER, scopes_of, tag_of

# Types of nodes that are not the operator's name in camel case.
TYPES = {
    "mm": "MatMul",
    "bmm": "BatchMatMul",
    "t": "Transpose",
    "permute": "Transpose",
    "view": "Reshape",
    "_unsafe_view": "Reshape",
    "alias": "Identity",
    "clone": "Identity",
    "_to_copy": "Cast",
    "copy_": "Assign",
    "linear": "MatMulV2",
    "addmm": "Gemm",
    "all_reduce": "HcomAllReduce",
    "all_gather_into_tensor": "HcomAllGather",
    "reduce_scatter_tensor": "HcomReduceScatter",
    "all_to_all_single": "HcomAllToAllV",
    "broadcast": "HcomBroadcast",
    "wait_tensor": "Identity",
}

DTYPES = {
    torch.float32: "DT_FLOAT",
    torch.float16: "DT_FLOAT16",
    torch.int8: "DT_INT8",
    torch.int32: "DT_INT32",
    torch.uint8: "DT_UINT8",
    torch.int16: "DT_INT16",
    torch.uint16: "DT_UINT16",
    torch.uint32: "DT_UINT32",
    torch.int64: "DT_INT64",
    torch.uint64: "DT_UINT64",
    torch.float64: "DT_DOUBLE",
    torch.bool: "DT_BOOL",
    torch.complex32: "DT_COMPLEX32",
    torch.complex64: "DT_COMPLEX64",
    torch.complex128: "DT_COMPLEX128",
    torch.bfloat16: "DT_BF16",
    torch.float8_e5m2: "DT_FLOAT8_E5M2",
    torch.float8_e4m3fn: "DT_FLOAT8_E4M3FN",
}


@dataclasses.dataclass
class Descriptor:
    name: str
    dtype: str
    shape: list[int]  # -1: only a call knows it


@dataclasses.dataclass
class Node:
    name: str
    type: str
    inputs: list[str]
    attributes: dict[str, Any]
    input_descriptors: list[Descriptor]
    outputs: list[Descriptor]
    source: torch.fx.Node | None = None

    @property
    def stream(self) -> str | None:
        tag = self.attributes.get(STREAM)
        return tag.decode() if isinstance(tag, bytes) else None


@dataclasses.dataclass
class Graph:
    name: str
    nodes: list[Node]


def convert(module: torch.fx.GraphModule, name: str) -> Graph:
    return _Converter().convert(module, name)


class _Converter:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.counts: dict[str, int] = {}
        # How the picture refers to an FX node, "producer:index", with its descriptors.
        self.value: dict[torch.fx.Node, list[tuple[str, Descriptor]]] = {}
        # For each stream: the last node, the edges of order that its next node gets,
        # and values that have another name after a wait.
        self.last: dict[str | None, str] = {}
        self.pending: dict[str | None, list[str]] = {}
        self.renamed: dict[str | None, dict[str, str]] = {}
        self.points: dict[torch.fx.Node, str] = {}  # the nodes that events stand for
        self.tags: dict[str, str] = {}
        self.effect: str | None = None  # the last node with an effect

    def convert(self, module: torch.fx.GraphModule, name: str) -> Graph:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self._add(node, "Data", name=node.name)
            elif node.op == "get_attr":
                self._add(node, "Const")
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._add(node, "NetOutput", orders=self._effects())
        return Graph(name, self.nodes)

    # Calls

    def _call(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        name = getattr(target, "__name__", str(target))
        schema = target._schema.name if isinstance(target, OpOverload) else name
        if name == "getitem":
            source, index = node.args[0], node.args[1]
            assert isinstance(source, torch.fx.Node)
            self.value[node] = [self.value[source][index]]  # type: ignore[index]
        elif schema == "anabranch::wait":
            self._wait(node)
        elif is_wait_result(node):
            source = node.args[0]
            assert isinstance(source, torch.fx.Node)
            self.value[node] = [self._as_renamed(source, tag_of(node))]
        elif schema.startswith(("anabranch::record", "anabranch::wait_")):
            self._event(node, schema.removeprefix("anabranch::"))
        elif schema == "air::print":
            self._print(node)
        elif isinstance(target, OpOverload) and not target._schema.returns:
            kind = type_of(schema.rpartition("::")[2])
            self.effect = self._add(node, kind, orders=self._effects()).name
        else:
            self._add(node, type_of(schema.rpartition("::")[2]))

    def _effects(self) -> list[str]:
        """The previous node with an effect, since such nodes stay in order."""
        return [] if self.effect is None else [self.effect]

    def _print(self, node: torch.fx.Node) -> None:
        """Adds two nodes: one makes the text, the other prints it."""
        text = self._add(node, "StringFormat")
        text.outputs = [Descriptor("y0", "DT_STRING", [])]
        self.value[node] = [(f"{text.name}:0", text.outputs[0])]
        printing = self._add(node, "PrintV2", data=[node], orders=self._effects())
        for key in _literals(node):
            del printing.attributes[key]
        self.effect = printing.name

    def _wait(self, node: torch.fx.Node) -> None:
        """Adds an Identity of the waiting tensor, ordered after the producer of the
        dependency. Later readers on its stream read the Identity."""
        waiting, dependency = node.args[:2]
        assert isinstance(waiting, torch.fx.Node)
        assert isinstance(dependency, torch.fx.Node)
        stream = tag_of(node)
        order = self._producer(dependency)
        if waiting is dependency:
            self.pending.setdefault(stream, []).append(order)
            return
        added = self._add(node, "Identity", data=[waiting], orders=[order])
        old = self.value[waiting][0][0]
        self.renamed.setdefault(stream, {})[old] = f"{added.name}:0"
        self.value[node] = [(f"{added.name}:0", added.outputs[0])]

    def _as_renamed(
        self, node: torch.fx.Node, stream: str | None
    ) -> tuple[str, Descriptor]:
        edge, descriptor = self.value[node][0]
        return self.renamed.get(stream, {}).get(edge, edge), descriptor

    def _event(self, node: torch.fx.Node, kind: str) -> None:
        """Handles a record, which stands for the last node of its stream, and a wait,
        which orders the next node of its stream."""
        stream = tag_of(node)
        argument = node.args[0] if node.args else node.kwargs.get("tag")
        if kind == "record":
            point = self.last.get(stream)
            if point is None:
                point = self._add(node, "NoOp").name
            self.points[node] = point
            if isinstance(argument, str):
                self.tags[argument] = point
            return
        if isinstance(argument, str):
            order = self.tags.get(argument)
        else:
            assert isinstance(argument, torch.fx.Node)
            order = self._producer(argument)
        if order is not None:
            self.pending.setdefault(stream, []).append(order)

    def _producer(self, node: torch.fx.Node) -> str:
        if node in self.points:
            return self.points[node]
        return self.value[node][0][0].rpartition(":")[0]

    # Nodes

    def _add(
        self,
        node: torch.fx.Node,
        kind: str,
        name: str | None = None,
        data: list[torch.fx.Node] | None = None,
        orders: list[str] | None = None,
    ) -> Node:
        stream = tag_of(node)
        name = name or self._unique(kind)
        if data is None:
            data = [] if kind == "NoOp" else _tensors_of(node)
        edges = [self.value[item][0] for item in data if item in self.value]
        names = self.renamed.get(stream, {})
        inputs = [names.get(edge, edge) for edge, _ in edges]
        orders = [*(orders or []), *self._orders(kind, stream)]
        producers = {text.rpartition(":")[0] for text in inputs}
        inputs += [f"{o}:-1" for o in dict.fromkeys(orders) if o not in producers]
        shown = kind == "Identity" and len(data) == 1
        value = data[0].meta.get("val") if shown else node.meta.get("val")
        outputs = [] if kind == "NetOutput" else _descriptors(value)
        added = Node(
            name,
            kind,
            inputs,
            _literals(node),
            [dataclasses.replace(d, name=f"x{i}") for i, (_, d) in enumerate(edges)],
            outputs,
            node,
        )
        self._mark(added, node)
        self.nodes.append(added)
        self.value[node] = [(f"{name}:{i}", d) for i, d in enumerate(outputs)]
        if kind not in ("Data", "Const"):
            self.last[stream] = name
        return added

    def _orders(self, kind: str, stream: str | None) -> list[str]:
        if kind in ("Data", "Const", "NetOutput"):
            return []
        return self.pending.pop(stream, [])

    def _unique(self, kind: str) -> str:
        count = self.counts.get(kind, 0)
        self.counts[kind] = count + 1
        return f"{kind}_{count}" if count else kind

    def _mark(self, added: Node, node: torch.fx.Node) -> None:
        scopes = scopes_of(node)
        removed = SUPER if scopes.get(SUPER[0]) == "" else ()
        for key, text in scopes.items():
            if key in removed:
                logger.debug("Removed attribute %s on op: %s", key, added.name)
                continue
            added.attributes[key] = (
                text == "True" if key in FLAGS else text.encode("utf-8")
            )
            logger.debug("Set attribute %s: %s on op: %s", key, text, added.name)


def type_of(operator: str) -> str:
    """The graph engine's name of an operator: `_softmax` is `Softmax`, `add` is `Add`."""
    if operator in TYPES:
        return TYPES[operator]
    words = [word for word in operator.split("_") if word]
    return "".join(word[:1].upper() + word[1:] for word in words) or "Unknown"


def _tensors_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands in order. An operand may occur twice."""
    found: list[torch.fx.Node] = []

    def keep(item: torch.fx.Node) -> torch.fx.Node:
        found.append(item)
        return item

    torch.fx.node.map_arg((node.args, node.kwargs), keep)
    return found


def _literals(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments that are no tensors and differ from the schema's defaults."""
    if not isinstance(node.target, OpOverload) or is_order_operator(node.target):
        return {}
    found = {}
    for spec, value in _bound(node, node.target):
        is_default = spec.has_default_value() and value == spec.default_value
        if is_default or value is None or _mentions(value):
            continue
        found[spec.name] = value
    return found


def _bound(node: torch.fx.Node, target: OpOverload) -> Iterator[tuple[Any, Any]]:
    for index, spec in enumerate(target._schema.arguments):
        if not spec.kwarg_only and index < len(node.args):
            yield spec, node.args[index]
        elif spec.name in node.kwargs:
            yield spec, node.kwargs[spec.name]


def _mentions(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_mentions, value))
    return isinstance(value, torch.fx.Node)


def _descriptors(value: Any) -> list[Descriptor]:
    if value is None:
        return []
    values = value if isinstance(value, list | tuple) else [value]
    return [_descriptor(item, f"y{i}") for i, item in enumerate(values)]


def _descriptor(value: Any, name: str) -> Descriptor:
    if isinstance(value, torch.Tensor):
        shape = [size if isinstance(size, int) else -1 for size in value.shape]
        return Descriptor(name, DTYPES.get(value.dtype, "DT_UNDEFINED"), shape)
    kinds = {
        bool: "DT_BOOL",
        int: "DT_INT64",
        torch.SymInt: "DT_INT64",
        float: "DT_DOUBLE",
        torch.SymFloat: "DT_DOUBLE",
    }
    return Descriptor(name, kinds.get(type(value), "DT_UNDEFINED"), [])
