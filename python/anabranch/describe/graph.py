"""An FX graph of ATen operators -> the graph description (JSON-ready dict).

docs/design/foundation.md, section 1, says what it looks like.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Sequence
from typing import Any

import sympy
import torch
import torch.fx
from torch._ops import OpOverload

from ..location import location
from ..marks.mark_order import Order, is_order, is_pass
from . import collectives, purity, shape_checks
from .aliases import Alias, Aliases
from .ranges import small_range
from .storages import replaced_arguments
from .symbols import (
    DATA_DEPENDENT,
    Unsupported,
    integer,
    is_number,
    names,
    number,
)
from .tensors import describe, dtype_name, foreign_strides, memory_order
from .views import overlaps

LAYOUTS = {torch.strided: 0}
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}

# PyTorch's own numbers of dtypes, as far as defaults in schemas use them.
_SCALAR_TYPES = {4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}

# Checks that PyTorch made while it traced; they compute nothing.
ASSERTIONS = ("_assert_tensor_metadata", "sym_constrain_range", "_assert_scalar")


@dataclasses.dataclass(frozen=True)
class InputSource:
    """Where a placeholder's value comes from."""

    label: str
    kind: str = "input"  # "parameter", "buffer"
    constant: torch.Tensor | None = None  # the value, when it is frozen
    # The user's tensor that the value is of, which may change.
    owner: weakref.ref[torch.Tensor] | None = None


# (output, "expand" or "permute", the method's argument): what the program gives
# back is stored in a simpler order, and this view of it is the output.
OutputView = tuple[int, str, list[int]]


@dataclasses.dataclass
class Description:
    graph: dict[str, Any]
    constants: dict[str, torch.Tensor]
    arguments: int  # how many arguments a call gets
    passed: list[int]  # placeholders that are passed at a call, by position
    copied: list[int]  # of those, by position among them: made contiguous first
    views: list[OutputView]  # of outputs, applied by the caller
    aliases: list[Alias]  # outputs that the program leaves out
    # The user's tensors behind constants, by the names of these.
    owners: dict[str, weakref.ref[torch.Tensor]] = dataclasses.field(
        default_factory=dict
    )
    # How kernels of products are cut up, as tuning found, by their keys.
    blockings: dict[str, str] = dataclasses.field(default_factory=dict)
    # Arguments that a collective of another graph may still be writing, by position.
    awaited: list[int] = dataclasses.field(default_factory=list)


class GraphReader:
    """Reads one FX graph. Raises Unsupported where it has no description."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        name: str,
        sources: Sequence[InputSource],
        order: Order | None = None,
        standalone: bool = False,
    ) -> None:
        """`standalone`: nobody makes views of what the program gives back, so
        every result is contiguous memory of its own."""
        self.standalone = standalone
        self.module = module
        self.name = name
        self.sources = sources
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.mutations: dict[str, str] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.owners: dict[str, weakref.ref[torch.Tensor]] = {}
        self.passed: list[int] = []
        self.copied: list[int] = []
        self.views: list[OutputView] = []
        self.aliases = Aliases()
        self.order = order or Order()
        self.shape_env: Any = None
        # What a node stands for when it is no node of the description.
        self.stands_for: dict[torch.fx.Node, dict[str, Any]] = {}
        self.awaited: list[int] = []

    def read(self) -> Description:
        placeholders = 0
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, placeholders)
                placeholders += 1
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(node)
            else:
                raise Unsupported(f"a node of the kind {node.op}")
        self.order.finish()
        graph = {
            "version": 1,
            "name": self.name,
            "symbols": self._symbols(),
            "inputs": self.inputs,
            "nodes": self.nodes,
            "outputs": self.outputs,
            "mutations": [
                {"input": target, "value": value}
                for target, value in self.mutations.items()
            ],
        }
        return Description(
            graph,
            self.constants,
            placeholders,
            self.passed,
            self.copied,
            self.views,
            self.aliases.found,
            self.owners,
            awaited=self.awaited,
        )

    # Inputs

    def _placeholder(self, node: torch.fx.Node, position: int) -> None:
        value = node.meta.get("val")
        if not node.users and type(value).__name__ == "FakeScriptObject":
            return  # the mesh of a DTensor, which AOTAutograd's wrapper alone reads
        self.aliases.own_input(position, value)
        source = self.sources[position]
        if source.constant is not None and isinstance(value, torch.Tensor):
            self._constant(node, source.constant, source)
            return
        self.passed.append(position)
        entry: dict[str, Any] = {"name": node.name, "label": source.label}
        if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            self._see(value)
            self.inputs.append(entry | {"kind": "scalar", "expr": integer(value)})
            return
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the input {source.label} is no tensor and no int")
        self._see(*value.shape)
        entry |= {"kind": source.kind} | describe(value)
        strides = foreign_strides(value)
        if strides is not None:
            entry["strides"] = strides
            if any(names(stride) for stride in strides):
                self.copied.append(len(self.passed) - 1)
        self.inputs.append(entry)

    def _attribute(self, node: torch.fx.Node) -> None:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"a node reads {node.target}, which is no tensor")
        self._constant(node, value, InputSource(str(node.target)))

    def _constant(
        self, node: torch.fx.Node, value: torch.Tensor, source: InputSource
    ) -> None:
        described = describe(value)
        self.constants[node.name] = value.detach()
        if source.owner is not None:
            self.owners[node.name] = source.owner
        self.inputs.append(
            {"name": node.name, "label": source.label, "kind": "constant"}
            | described
            | {"constant": node.name}
            | small_range(value)
        )

    # Nodes

    def _call(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        target: Any = node.target
        if node.meta.get("unbacked_bindings"):
            raise Unsupported(DATA_DEPENDENT)
        if getattr(target, "__name__", "") == "getitem":
            self._item(node)
        elif is_number(value):
            self.stands_for[node] = number(value)
        elif not isinstance(target, OpOverload):
            raise Unsupported(f"{target} is no ATen operator")
        elif target._schema.name.partition("::")[2] in ASSERTIONS:
            return
        elif target is torch.ops.aten.copy_.default:
            self._mutation(node)
        elif is_order(target):
            self._order(node, target)
        elif collectives.is_wait(target):
            self._waited(node)
        elif collectives.is_collective(target):
            self._operator(node, collectives.waiting(target), value)
        else:
            self._operator(node, target, value)

    def _waited(self, node: torch.fx.Node) -> None:
        """A collective of this graph has waited already; for one of another graph the
        caller waits."""
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        if source.op == "placeholder":
            placeholders = self.module.graph.find_nodes(op="placeholder")
            self.awaited.append(placeholders.index(source))
        self.stands_for[node] = self._reference(source)

    def _item(self, node: torch.fx.Node) -> None:
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        base = self._reference(source)
        if not isinstance(index, int) or "result" in base or "ref" not in base:
            raise Unsupported(f"{node.name} takes an item of what is no list")
        self.stands_for[node] = base | {"result": index}

    def _mutation(self, node: torch.fx.Node) -> None:
        """`copy_` into an input; AOTAutograd puts these at the end."""
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
        entry = next(item for item in self.inputs if item["name"] == target.name)
        position = self.inputs.index(entry)
        if "constant" in entry or self._is_copied(position):
            raise Unsupported(f"a write to {entry['label']}, which is passed as a copy")
        if _overlaps_itself(old):
            raise Unsupported(f"a write to {entry['label']}, which overlaps itself")
        entry["mutated"] = True
        self.aliases.own_mutation(old, new)
        self.mutations[target.name] = self._name_of(value)
        self.stands_for[node] = {"ref": target.name}

    def _is_copied(self, position: int) -> bool:
        before = [item for item in self.inputs[:position] if "constant" not in item]
        return len(before) in self.copied

    def _name_of(self, node: torch.fx.Node) -> str:
        """The name of a tensor; a part of a list gets a node of its own, since
        a mutation names its value."""
        reference = self._reference(node)
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
        self.stands_for[node] = {"ref": node.name}
        return node.name

    def _operator(self, node: torch.fx.Node, target: OpOverload, value: Any) -> None:
        if target._schema.is_mutable:
            raise Unsupported(f"{target} writes in place")
        shape_checks.check(node)
        if any(node_input.name in self.mutations for node_input in _inputs_of(node)):
            raise Unsupported(f"{node.name} reads an input after a write to it")
        replaced = replaced_arguments(node)
        if replaced is None:
            raise Unsupported(f"{target} of a view reads the memory behind it")
        arguments = self._arguments(node, target) | {
            name: self._literal(value) for name, value in replaced.items()
        }
        if target is torch.ops.aten.lift_fresh_copy.default:
            # A copy of a constant, under the name that copies have.
            target = torch.ops.aten.clone.default
            arguments["memory_format"] = None
        entry: dict[str, Any] = {
            "name": node.name,
            "op": _operator_name(target),
            "args": arguments,
            "results": self._results(target, value),
            "loc": location(node),
        }
        # Random numbers; what is there for its effect; and what the schema of a
        # user's operator does not tell.
        if (
            torch.Tag.nondeterministic_seeded in target.tags
            or not target._schema.returns
            or target.namespace not in purity.NAMESPACES
        ):
            entry["ordered"] = True
        if is_pass(node):
            entry |= {"op": "anabranch::pass", "ordered": True}
        self._annotate(node, entry)
        self.nodes.append(entry)

    def _order(self, node: torch.fx.Node, target: OpOverload) -> None:
        """A wait, a record: results in the description only where it has some."""
        arguments = self._arguments(node, target)
        name = target._schema.name
        if target is torch.ops.anabranch.wait.default:
            self.order.check_wait(node)
            del arguments["strict"]
        elif target is torch.ops.anabranch.record.default:
            self.order.record(node)
        elif event := self.order.event_of(node):
            name = "anabranch::wait_event"
            arguments = {"event": self._reference(event)}
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
        # An undefined tensor is described as an empty one: nobody can read it.
        undefined = {"dtype": dtype_name(tensors[0].dtype), "shape": [0]}
        return [undefined if item is None else describe(item) for item in values]

    def _arguments(self, node: torch.fx.Node, target: OpOverload) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for position, spec in enumerate(target._schema.arguments):
            if not spec.kwarg_only and position < len(node.args):
                value: Any = node.args[position]
            elif spec.name in node.kwargs:
                value = node.kwargs[spec.name]
            elif spec.has_default_value():
                value = spec.default_value
            else:
                raise Unsupported(f"{node.name} lacks the argument {spec.name}")
            if spec.name == "group_name" and collectives.is_own(target):
                value = collectives.portable_name(value)
            arguments[spec.name] = self._argument(value, spec.real_type)
        return arguments

    def _argument(self, value: Any, kind: Any) -> Any:
        """A schema gives its defaults of dtypes and the like as integers."""
        while isinstance(kind, torch.OptionalType):
            kind = kind.getElementType()
        if isinstance(value, int) and not isinstance(value, bool):
            name = str(kind)
            if isinstance(kind, torch.ListType):
                return [value]
            if name == "ScalarType":
                return {"dtype": dtype_name(_SCALAR_TYPES[value])}
            if name == "MemoryFormat":
                return {"memory_format": value}
            if name == "Layout":
                return {"layout": value}
            if name == "float":
                value = float(value)
        return self._literal(value)

    def _literal(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return self._reference(value)
        if isinstance(value, list | tuple):
            return [self._literal(item) for item in value]
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float | torch.SymInt | torch.SymFloat):
            return number(value)
        if isinstance(value, str):
            return {"str": value}
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, torch.device):
            if value.type != "cpu":
                raise Unsupported(f"a tensor on {value}")
            return {"device": str(value)}
        if value in LAYOUTS:
            return {"layout": LAYOUTS[value]}
        if isinstance(value, torch.memory_format):
            return {"memory_format": MEMORY_FORMATS[value]}
        raise Unsupported(f"an argument of the type {type(value).__name__}")

    def _reference(self, node: torch.fx.Node) -> dict[str, Any]:
        if node in self.stands_for:
            return self.stands_for[node]
        value = node.meta.get("val")
        if is_number(value):
            return number(value)
        if isinstance(value, torch.SymBool | bool):
            raise Unsupported(f"{node.name} is a symbolic {type(value).__name__}")
        return {"ref": node.name}

    # Outputs and symbols

    def _outputs(self, node: torch.fx.Node) -> None:
        values = node.args[0]
        assert isinstance(values, Sequence)
        tensors = [
            value.meta.get("val") if isinstance(value, torch.fx.Node) else value
            for value in values
        ]
        if any(isinstance(value, float | torch.SymFloat) for value in tensors):
            raise Unsupported("an output that is a float")
        self.aliases.own_outputs(tensors)
        for position, value in enumerate(values):
            if value is None or self._is_view(position, value):
                self.outputs.append({"none": True})
            elif isinstance(value, int) and not isinstance(value, bool):
                self.outputs.append({"expr": value})
            elif isinstance(value, torch.fx.Node):
                self.outputs.append(self._output(value))
            else:
                raise Unsupported(f"an output of the type {type(value).__name__}")
        self.outputs += [{"expr": number} for number in self.aliases.numbers]

    def _is_view(self, position: int, value: Any) -> bool:
        """Whether an output is made by the caller, out of others."""
        if not isinstance(value, torch.fx.Node) or self.standalone:
            return False
        reference = self._reference(value)
        if "expr" in reference or reference["ref"] in self._input_names():
            return False
        return self.aliases.take(position, value.meta.get("val"))

    def _output(self, node: torch.fx.Node) -> dict[str, Any]:
        reference = self._reference(node)
        value = node.meta.get("val")
        if "expr" in reference or reference["ref"] in self._input_names():
            return reference
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the output {node.name} is no tensor")
        if foreign_strides(value) is None or self.standalone:
            return reference
        shape, strides = list(value.shape), list(value.stride())
        wide = [d for d, s in enumerate(strides) if integer(s) == 0 and shape[d] != 1]
        if not all(isinstance(shape[dim], int) for dim in wide):
            return reference
        for dim in wide:
            reference = self._narrowed(node, reference, shape, dim)
        reference = self._ordered(node, reference, shape, strides)
        if wide:
            sizes = [value.shape[d] if d in wide else -1 for d in range(len(shape))]
            self.views.append((len(self.outputs), "expand", sizes))
        return reference

    def _narrowed(
        self, node: torch.fx.Node, reference: dict[str, Any], shape: list[Any], dim: int
    ) -> dict[str, Any]:
        """A result that was expanded is given back unexpanded, so that every
        element is written once; the caller expands it."""
        shape[dim] = 1
        bounds = {"dim": dim, "start": 0, "end": 1, "step": 1}
        return self._add_view(node, "aten.slice.Tensor", reference, bounds, shape)

    def _ordered(
        self,
        node: torch.fx.Node,
        reference: dict[str, Any],
        shape: list[Any],
        strides: list[Any],
    ) -> dict[str, Any]:
        """Static strides are asked for. Symbolic ones that are those of a
        contiguous tensor with its dimensions in another order are given back in
        that order. Others are given back contiguous, and a copy has them; so are
        complex ones, since PyTorch would permute them without moving elements."""
        order = memory_order(shape, strides)
        if order == list(range(len(shape))):
            return reference
        static = all(isinstance(stride, int) for stride in strides)
        if static and not overlaps(shape, strides):
            return reference | {"strides": strides}
        if order is None or (not static and node.meta["val"].is_complex()):
            if not static and all(integer(stride) != 0 for stride in strides):
                self.aliases.lay_out(len(self.outputs), node.meta["val"])
            return reference
        inverse = [order.index(dim) for dim in range(len(order))]
        self.views.append((len(self.outputs), "permute", inverse))
        permuted = [shape[dim] for dim in order]
        dims = {"dims": order}
        return self._add_view(node, "aten.permute.default", reference, dims, permuted)

    def _add_view(
        self,
        node: torch.fx.Node,
        op: str,
        reference: dict[str, Any],
        arguments: dict[str, Any],
        shape: Sequence[Any],
    ) -> dict[str, Any]:
        sizes = [integer(size) for size in shape]
        name = f"{node.name}_out{len(self.outputs)}_{len(self.nodes)}"
        self.nodes.append(
            {
                "name": name,
                "op": op,
                "args": {"self": reference} | arguments,
                "results": [describe(node.meta["val"]) | {"shape": sizes}],
                "loc": location(node),
            }
        )
        return {"ref": name}

    def _input_names(self) -> set[str]:
        return {item["name"] for item in self.inputs}

    def _see(self, *sizes: Any) -> None:
        for size in sizes:
            if isinstance(size, torch.SymInt):
                self.shape_env = size.node.shape_env

    def _symbols(self) -> list[dict[str, Any]]:
        used: set[str] = set()
        defined: set[str] = set()
        for entry in (*self.inputs, *self.outputs, *self.nodes):
            used |= _symbols_in(entry)
        for entry in self.inputs:
            if isinstance(entry.get("expr"), str):
                defined.add(entry["expr"])
            defined |= {
                size for size in entry.get("shape", []) if isinstance(size, str)
            }
        if missing := used - defined:
            raise Unsupported(f"no input has the size {', '.join(sorted(missing))}")
        return [_symbol(name, self.shape_env) for name in sorted(used)]


def _overlaps_itself(value: torch.Tensor) -> bool:
    """Of symbolic sizes, not known."""
    lies = (*value.shape, *value.stride())
    known = all(isinstance(number, int) for number in lies) and value.numel()
    return bool(known) and overlaps(value.shape, value.stride())


def _inputs_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    return [item for item in node.all_input_nodes if item.op == "placeholder"]


def _operator_name(target: OpOverload) -> str:
    namespace, _, name = target._schema.name.partition("::")
    overload = target._schema.overload_name or "default"
    return f"{namespace}.{name}.{overload}"


def _plain(value: Any) -> Any:
    """Annotations are any values of the user's; text is what JSON can keep."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _symbols_in(entry: Any) -> set[str]:
    """Symbols in shapes, strides and {"expr"} anywhere in an entry."""
    if isinstance(entry, list):
        return set().union(*map(_symbols_in, entry))
    if not isinstance(entry, dict):
        return set()
    found: set[str] = set()
    for key, value in entry.items():
        if key == "expr":
            found |= names(value)
        elif key in ("shape", "strides"):
            found |= set().union(*map(names, value))
        elif key in ("args", "results"):
            found |= _symbols_in(list(value.values()) if key == "args" else value)
    return found


def _symbol(name: str, shape_env: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name}
    for symbol, bounds in getattr(shape_env, "var_to_range", {}).items():
        if symbol.name == name:
            described |= bounds_of(bounds)
    hints = getattr(shape_env, "backed_var_to_val", None)
    if hints is None:
        hints = getattr(shape_env, "var_to_val", {})
    for symbol, hint in hints.items():
        if symbol.name != name:
            continue
        if not sympy.sympify(hint).is_Integer:
            raise Unsupported("a size that only a jagged tensor has")
        described["hint"] = int(hint)
    return described


def bounds_of(bounds: Any) -> dict[str, int]:
    """The range, where it is finite and says more than any size would."""
    found = {}
    if bounds.lower.is_Integer:
        found["min"] = int(bounds.lower)
    if bounds.upper.is_Integer and int(bounds.upper) < 2**62:
        found["max"] = int(bounds.upper)
    return found
