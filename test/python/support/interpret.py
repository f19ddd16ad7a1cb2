"""Runs a graph description with PyTorch, node by node: the meaning of a description, in
one page. Tests compare it with eager, without the compiler."""

from __future__ import annotations

import math
from typing import Any

import torch

from anabranch.describe.arguments import LAYOUTS, MEMORY_FORMATS
from anabranch.describe.description import Description
from anabranch.describe.tensors import DTYPES

FUNCTIONS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sub": lambda a, b: a - b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "pow": lambda a, b: a**b,
}
DTYPE_OF = {name: dtype for dtype, name in DTYPES.items()}
LAYOUT_OF = {number: layout for layout, number in LAYOUTS.items()}
FORMAT_OF = {number: layout for layout, number in MEMORY_FORMATS.items()}


class Interpreter:
    """One call of one description."""

    def __init__(self, description: Description) -> None:
        self.graph = description.graph
        self.description = description
        # Positions among all inputs, constants included.
        passed = [i for i, e in enumerate(self.graph["inputs"]) if "constant" not in e]
        self.copied = {passed[position] for position in description.copied}
        self.symbols: dict[str, int] = {}
        self.values: dict[str, Any] = {}

    def run(self, arguments: list[Any]) -> tuple[Any, ...]:
        values = [arguments[i] for i in self.description.passed]
        for position in self.description.copied:
            values[position] = values[position].contiguous()
        passed = iter(values)
        for entry in self.graph["inputs"]:
            if "constant" in entry:
                value = self.description.constants[entry["constant"]]
            else:
                value = next(passed)
            self._input(entry, value)
        for node in self.graph["nodes"]:
            self._node(node)
        outputs = [self._output(entry) for entry in self.graph["outputs"]]
        for position, method, argument in self.description.views:
            outputs[position] = getattr(outputs[position], method)(argument)
        for mutation in self.graph["mutations"]:
            self.values[mutation["input"]].copy_(self.values[mutation["value"]])
        return tuple(outputs)

    def _input(self, entry: dict[str, Any], value: Any) -> None:
        if entry["kind"] == "scalar":
            if isinstance(entry["expr"], str):
                self.symbols[entry["expr"]] = value
            return
        for size, expression in zip(value.shape, entry["shape"]):
            if isinstance(expression, str):
                self.symbols.setdefault(expression, size)
        assert value.dtype == DTYPE_OF[entry["dtype"]]
        assert list(value.shape) == self._sizes(entry["shape"])
        strides = self._sizes(entry["strides"]) if "strides" in entry else None
        if strides is None or self.graph["inputs"].index(entry) in self.copied:
            assert value.is_contiguous()
        else:
            for size, got, want in zip(value.shape, value.stride(), strides):
                assert size == 1 or got == want
        self.values[entry["name"]] = value.detach()

    def _node(self, node: dict[str, Any]) -> None:
        namespace, name, overload = node["op"].split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        positional, keywords = [], {}
        for spec in operator._schema.arguments:
            value = self._argument(node["args"][spec.name])
            if spec.kwarg_only:
                keywords[spec.name] = value
            else:
                positional.append(value)
        assert set(node["args"]) == {s.name for s in operator._schema.arguments}
        result = operator(*positional, **keywords)
        results = result if isinstance(result, tuple | list) else [result]
        assert len(results) == len(node["results"])
        for value, entry in zip(results, node["results"]):
            if value is not None:
                assert value.dtype == DTYPE_OF[entry["dtype"]], node
                assert list(value.shape) == self._sizes(entry["shape"]), node
        self.values[node["name"]] = result

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self._argument(item) for item in argument]
        if not isinstance(argument, dict):
            return argument
        if "ref" in argument:
            return self._reference(argument)
        ((kind, value),) = argument.items()
        if kind == "expr":
            return self._integer(value)
        if kind == "float":
            return math.nan if value == "nan" else float(value)
        if kind == "dtype":
            return DTYPE_OF[value]
        if kind == "layout":
            return LAYOUT_OF[value]
        if kind == "memory_format":
            return FORMAT_OF[value]
        assert kind in ("str", "device")
        return value

    def _reference(self, reference: dict[str, Any]) -> Any:
        value = self.values[reference["ref"]]
        return value[reference["result"]] if "result" in reference else value

    def _output(self, entry: dict[str, Any]) -> Any:
        if "none" in entry:
            return None
        if "expr" in entry:
            return self._integer(entry["expr"])
        value = self._reference(entry)
        if any(value is v for v in self.values.values()) and self._is_input(entry):
            return value
        strides = entry.get("strides")
        if strides is None:
            return value.contiguous().clone()
        return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)

    def _is_input(self, entry: dict[str, Any]) -> bool:
        return any(entry["ref"] == i["name"] for i in self.graph["inputs"])

    def _integer(self, expression: Any) -> int:
        if isinstance(expression, int):
            return expression
        if isinstance(expression, str):
            return self.symbols[expression]
        function, first, second = expression
        return FUNCTIONS[function](self._integer(first), self._integer(second))

    def _sizes(self, expressions: list[Any]) -> list[int]:
        return [self._integer(expression) for expression in expressions]
