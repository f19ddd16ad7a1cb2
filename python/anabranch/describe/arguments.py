"""Spells the arguments of operator calls as the graph description does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from ..collectives.groups import portable_name
from ..collectives.operators import is_own
from .symbols import Unsupported, is_number, number, truth
from .tensors import dtype_name

LAYOUTS = {torch.strided: 0}
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}

# PyTorch's numbers of dtypes, for those that occur as defaults in schemas.
_SCALAR_TYPES = {4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}


@dataclasses.dataclass(frozen=True)
class Spelled:
    """An argument as the description has it."""

    spelling: dict[str, Any]


class Arguments:
    """Spells arguments, and knows how the description refers to each node of the graph."""

    def __init__(self) -> None:
        # References of nodes that are no nodes of the description.
        self._stands_for: dict[torch.fx.Node, dict[str, Any]] = {}
        self._nothing: set[torch.fx.Node] = set()

    def set_reference(self, node: torch.fx.Node, reference: dict[str, Any]) -> None:
        """Makes the description refer to this node as `reference`: a number, an input,
        or a part of another node."""
        self._stands_for[node] = reference

    def set_nothing(self, node: torch.fx.Node) -> None:
        """Leaves the node out of the description: it has no value that is computed."""
        self._nothing.add(node)

    def is_nothing(self, value: Any) -> bool:
        """Whether this is None, or a node that the description leaves out."""
        return value is None or value in self._nothing

    def reference(self, node: torch.fx.Node) -> dict[str, Any]:
        """How the description refers to the node's value: {"ref": name}, with "result"
        for a part of a list, or {"expr": ...}."""
        if node in self._stands_for:
            return self._stands_for[node]
        value = node.meta.get("val")
        if is_number(value):
            return number(value)
        if isinstance(value, torch.SymBool | bool):
            return {"expr": truth(value)}
        return {"ref": node.name}

    def of_call(self, node: torch.fx.Node, target: OpOverload) -> dict[str, Any]:
        """All arguments of a call, by their names in the schema, with defaults filled
        in."""
        specs = target._schema.arguments
        given = dict(zip((spec.name for spec in specs), node.args))
        return self.of_values(node, target, given | node.kwargs)

    def of_values(
        self, node: torch.fx.Node, target: OpOverload, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The same for arguments that are given by their names."""
        arguments: dict[str, Any] = {}
        for spec in target._schema.arguments:
            if spec.name in given:
                value: Any = given[spec.name]
            elif spec.has_default_value():
                value = spec.default_value
            else:
                raise Unsupported(f"{node.name} lacks the argument {spec.name}")
            if spec.name == "group_name" and is_own(target):
                value = portable_name(value)
            arguments[spec.name] = self._argument(value, spec.real_type)
        return arguments

    def _argument(self, value: Any, kind: Any) -> Any:
        """One argument. The schema has the defaults of dtypes, layouts and the like as
        integers."""
        while isinstance(kind, torch.OptionalType):
            kind = kind.getElementType()
        if str(kind) == "bool" and isinstance(value, torch.fx.Node):
            raise Unsupported(f"the option {value.name} is decided by the run")
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
        return self.literal(value)

    def literal(self, value: Any) -> Any:
        """A node, a list of nodes, or a constant of a type that schemas know."""
        if isinstance(value, torch.fx.Node):
            return self.reference(value)
        if isinstance(value, Spelled):
            return value.spelling
        if isinstance(value, list | tuple):
            return [self.literal(item) for item in value]
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
