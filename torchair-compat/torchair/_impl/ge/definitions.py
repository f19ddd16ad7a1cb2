"""The definitions of IR operators: inputs, attributes, and the PyTorch function that
computes them.

    Before: Definition("ReduceSum", ("x", "axes"), {"keep_dims": False}, torch.sum, ...)
    After:  call(Definition, {"x": tensor, "axes": [0]}, {"keep_dims": True}) -> [tensor]
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from anabranch import CompileError

from .types import Tensor

__all__ = ["DEFINITIONS", "Definition", "UnknownOperator", "find", "operator"]


class UnknownOperator(CompileError, NotImplementedError):
    """This host has no function for the IR operator."""


@dataclasses.dataclass(frozen=True)
class Definition:
    """One IR operator.

    `inputs` and `attrs` are names in order, with their defaults. The value of an input
    in `constants` must be known while the graph is traced. The first result is written
    to the input `writes`, if there is one.
    """

    op_type: str
    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    attrs: Mapping[str, Any]
    constants: frozenset[str]
    outputs: int
    writes: str = ""

    def call(
        self, inputs: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        """The results; a dynamic output is a list among them. CompileError: a name is
        unknown or missing."""
        self._check_names("input", inputs, self.inputs)
        self._check_names("attribute", attrs, self.attrs)
        given = [self._input(name, inputs) for name in self.inputs]
        named = {n: attrs.get(n, default) for n, default in self.attrs.items()}
        missing = [n for n, v in named.items() if v is inspect.Parameter.empty]
        if missing:
            raise CompileError(f"{self.op_type} needs the attribute '{missing[0]}'")
        result = self.function(*given, **named)
        return list(result) if isinstance(result, tuple) else [result]

    def _check_names(self, kind: str, given: Any, known: Mapping[str, Any]) -> None:
        for name in given:
            if name not in known:
                names = ", ".join(f"'{n}'" for n in known) or "none"
                raise CompileError(
                    f"{self.op_type} has no {kind} '{name}'; it has {names}"
                )

    def _input(self, name: str, inputs: Mapping[str, Any]) -> Any:
        value = inputs.get(name)
        if value is None:
            if self.inputs[name] is inspect.Parameter.empty:
                raise CompileError(f"{self.op_type} needs the input '{name}'")
            return self.inputs[name]
        if isinstance(value, list | tuple) and name not in self.constants:
            return [_tensor(part) for part in value]
        return self._constant(name, value) if name in self.constants else _tensor(value)

    def _constant(self, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.node.constant is None:
            raise CompileError(
                f"{self.op_type}: the input '{name}' must be known while the graph is"
                " traced: a ge.Const, or the Shape of a tensor"
            )
        return value.node.constant


DEFINITIONS: dict[str, Definition] = {}


def operator(
    *op_types: str,
    names: Sequence[str] = (),
    constants: Sequence[str] = (),
    outputs: int = 1,
    writes: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that registers a function for these IR operators. Its positional
    parameters are the inputs, under `names` if given; those with a default are
    optional. Its keyword parameters are the attributes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters.values()
        inputs = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        known = names or [p.name for p in inputs]
        for op_type in op_types:
            DEFINITIONS[op_type] = Definition(
                op_type,
                function,
                {name: p.default for name, p in zip(known, inputs)},
                {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY},
                frozenset(constants),
                outputs,
                writes,
            )
        return function

    return register


def find(op_type: str) -> Definition:
    """The definition of an IR operator. UnknownOperator: there is none."""
    found = DEFINITIONS.get(op_type)
    if found is None:
        raise UnknownOperator(
            f"the IR operator {op_type} can't be computed on this host: it is none of"
            f" the {len(DEFINITIONS)} that torchair-compat has functions for"
        )
    return found


def _tensor(value: Any) -> Any:
    return value.value if isinstance(value, Tensor) else value
