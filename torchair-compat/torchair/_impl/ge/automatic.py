"""Makes a converter for an operator that has none, from the IR operator of the same
name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from torch._ops import OpOverload

from .definitions import DEFINITIONS, Definition
from .nodes import by_name
from .types import Tensor

__all__ = ["BUILT_IN", "automatic_converter"]

BUILT_IN = ("aten", "prims", "prim", "higher_order")


def automatic_converter(target: Any) -> Callable[..., Any]:
    """A converter for an operator without kernel and converter. It uses the IR operator
    whose name is the operator's in camel case. RuntimeError: there is none, or its
    arguments or results are others."""
    if not isinstance(target, OpOverload):
        _fail(target, "it is no OpOverload")
    if target.namespace in BUILT_IN:
        _fail(target, "it is an operator of PyTorch")
    _, _, name = target._schema.name.partition("::")
    op_type = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    if op_type not in DEFINITIONS:
        _fail(target, f"No AscendIR {op_type} was found to be registered")
    definition = DEFINITIONS[op_type]
    _check(target, definition)
    return _converter(target, definition)


def _fail(target: Any, why: str) -> NoReturn:
    raise RuntimeError(
        f"Failed to auto-generated converter for {target} to AscendIR: {why}"
    )


def _is_input(kind: str) -> bool:
    return "Tensor" in kind


def _check(target: OpOverload, definition: Definition) -> None:
    schema = target._schema
    kinds = {a.name: str(a.type) for a in schema.arguments}
    scalars = [
        name for name, kind in kinds.items() if "Scalar" in kind or kind == "number"
    ]
    if scalars:
        _fail(target, f"'{scalars[0]}' is a scalar, which no IR operator takes")
    inputs = sum(map(_is_input, kinds.values()))
    if inputs != len(definition.inputs):
        _fail(
            target,
            f"it takes {inputs} tensors, {definition.op_type} takes"
            f" {len(definition.inputs)}",
        )
    if len(kinds) - inputs > len(definition.attrs):
        _fail(
            target,
            f"it takes {len(kinds) - inputs} arguments that are no tensors,"
            f" {definition.op_type} has {len(definition.attrs)} attributes",
        )
    told = ((a.name, a.alias_info) for a in schema.arguments)
    changed = [name for name, alias in told if alias and alias.is_write]
    written = [definition.writes] if definition.writes else []
    if len(changed) != len(written):
        _fail(
            target,
            f"it writes to {changed or 'no input'}, {definition.op_type} to"
            f" {written or 'none'}",
        )
    # The IR operator also returns the input that it writes.
    made = definition.outputs - len(written)
    if len(schema.returns) != made:
        _fail(
            target,
            f"it returns {len(schema.returns)} values, {definition.op_type} makes"
            f" {made}",
        )


def _converter(target: OpOverload, definition: Definition) -> Callable[..., Any]:
    arguments = target._schema.arguments

    def convert(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((a.name for a in arguments), args)) | kwargs
        tensors = [given.get(a.name) for a in arguments if _is_input(str(a.type))]
        plain = [
            given.get(a.name, a.default_value)
            for a in arguments
            if not _is_input(str(a.type))
        ]
        _check_inputs(definition, tensors)
        attrs = dict(zip(definition.attrs, plain))
        found = by_name(definition.op_type)(*tensors, **attrs)
        if not definition.writes:
            return found
        return found[1:] if isinstance(found, tuple) else ()

    return convert


def _check_inputs(definition: Definition, tensors: list[Any]) -> None:
    for (name, default), value in zip(definition.inputs.items(), tensors):
        needed = default is inspect.Parameter.empty
        if needed and not isinstance(value, Tensor | list | tuple):
            raise RuntimeError(
                "Failed to convert torch args to AscendIR args: the input"
                f" '{name}' of {definition.op_type} needs a tensor, got {value!r}"
            )
