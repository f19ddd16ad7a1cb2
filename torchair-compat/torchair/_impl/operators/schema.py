"""The schema of an operator, from the signature of its Python function."""

from __future__ import annotations

import inspect
import string
import types
from collections.abc import Callable, Iterator, Sequence
from typing import (
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import torch

__all__ = [
    "Reserved",
    "Written",
    "arguments_of",
    "reserved_arguments",
    "schema_of",
    "signature_of",
]

_T = TypeVar("_T")
_RESERVED, _WRITTEN = object(), object()

# An argument for other processors: a caller may give its default only.
Reserved = Annotated[_T, _RESERVED]
# A tensor that the operator writes, or returns after it has written it.
Written = Annotated[torch.Tensor, _WRITTEN]
# Any other type that Python has no word for is a text: Annotated[list[int], "int[2]"].

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD = inspect.Parameter.KEYWORD_ONLY

_TYPES = {
    bool: "bool",
    float: "float",
    int: "int",
    str: "str",
    torch.Tensor: "Tensor",
    torch.dtype: "ScalarType",
    type(None): "()",
}


def schema_of(function: Callable[..., Any]) -> str:
    """The text of the schema after the operator's name. KeyError: a type that schemas do
    not have."""
    hints = get_type_hints(function, include_extras=True)
    # A result that was written is the first written argument.
    result = _type_text(hints["return"], iter(string.ascii_lowercase))
    return f"{arguments_of(function)} -> {result}"


def arguments_of(taken_by: Callable[..., Any]) -> str:
    """The schema's list of the arguments that a function takes, or that the fields of a
    dataclass are. KeyError: a type that schemas do not have."""
    hints = get_type_hints(taken_by, include_extras=True)
    letters = iter(string.ascii_lowercase)
    arguments = []
    for parameter in inspect.signature(taken_by).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        text = f"{_type_text(hints[parameter.name], letters)} {parameter.name}"
        if parameter.default is not parameter.empty:
            text += f"={_default_text(parameter.default)}"
        arguments.append(text)
    return f"({', '.join(arguments)})"


def reserved_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the arguments that are for other processors."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if _RESERVED in getattr(hints[name], "__metadata__", ())
    }


def signature_of(schema: torch.FunctionSchema) -> inspect.Signature:
    """The signature that callers see. `self` is called `input`, as torch_npu's pages call
    it."""
    parameters = []
    for argument in schema.arguments:
        empty, named = inspect.Parameter.empty, argument.kwarg_only
        made = inspect.Parameter(
            "input" if argument.name == "self" else argument.name,
            _KEYWORD if named else _POSITIONAL,
            default=argument.default_value if argument.has_default_value() else empty,
            annotation=str(argument.real_type),
        )
        parameters.append(made)
    return inspect.Signature(parameters)


def _type_text(hint: Any, letters: Iterator[str]) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        stated = [note for note in inner[1:] if isinstance(note, str)]
        if _WRITTEN in inner:
            stated = [f"Tensor({next(letters)}!)"]
        return stated[0] if stated else _type_text(inner[0], letters)
    if origin in (Union, types.UnionType):
        [one] = [part for part in inner if part is not type(None)]
        return f"{_type_text(one, letters)}?"
    if origin in (list, Sequence):
        return f"{_type_text(inner[0], letters)}[]"
    if origin is tuple:
        return f"({', '.join(_type_text(part, letters) for part in inner)})"
    return _TYPES[hint]


def _default_text(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)
