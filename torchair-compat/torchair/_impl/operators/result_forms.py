"""Remembers the forms of operators' results: sizes, strides and dtypes.

Before AOTAutograd traces a graph, Dynamo and AOTAutograd each run it for the forms of its
results alone. There an operator with arguments of known forms need not run its parts again,
so that equal layers run them once. The trace itself copies nodes (`traced_parts.py`)."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from . import traced_parts

__all__ = ["remembering"]

_MOST = 256  # entries of an operator
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, type(None))


class _Unknown(Exception):
    """An argument or a result has no form that a key can hold."""


class _Symbol(NamedTuple):
    """A size that a graph has a symbol for. A form holds no SymInt, since that would keep
    the symbols of a whole trace."""

    expression: Any
    hint: int


def remembering(
    function: Callable[..., Any], schema: torch.FunctionSchema
) -> Callable[..., Any]:
    """The function of an operator, which finds the forms of its results once for arguments
    of equal forms, and whose parts a trace has once for such. An operator that writes to
    its arguments always runs."""
    if any(argument.alias_info is not None for argument in schema.arguments):
        return function
    fixed: dict[Any, Any] = {}
    traces: MutableMapping[ShapeEnv, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("cpu") or not _has_forms():
            return function(*args, **kwargs)
        symbols = _symbols()
        try:
            key = _key((args, tuple(sorted(kwargs.items()))))
        except _Unknown:
            return function(*args, **kwargs)
        if (trace := traced_parts.current()) is not None:
            return trace.run(function, (function, key), args, kwargs)
        # A symbol means something in its own trace alone.
        known = fixed
        if symbols is not None and _has_symbol(key):
            known = traces.setdefault(symbols, {})
        if key in known:
            return _empty(known[key], symbols)
        result = function(*args, **kwargs)
        try:
            forms = _forms(result, (args, kwargs))
        except _Unknown:
            return result
        if len(known) >= _MOST:
            known.clear()
        known[key] = forms
        return result

    return call


def _has_forms() -> bool:
    """Whether tensors have forms only."""
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    return fake is not None


def _symbols() -> ShapeEnv | None:
    """The symbols of the trace that asks for forms."""
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    assert fake is not None
    return fake.shape_env


def _has_symbol(key: Any) -> bool:
    if isinstance(key, _Symbol):
        return True
    return isinstance(key, tuple) and any(map(_has_symbol, key))


def _number(value: Any) -> int | _Symbol:
    """A size as a form has it. A size that only the run decides is a new one each time."""
    if type(value) is int:
        return value
    if not isinstance(value, torch.SymInt) or value.node.shape_env is not _symbols():
        raise _Unknown
    expression, hint = value.node.expr, value.node.hint
    if expression.is_Integer:
        # A symbol that the trace has found to be one number since.
        return int(expression)
    if free_unbacked_symbols(expression) or type(hint) is not int:
        raise _Unknown
    return _Symbol(expression, hint)


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _key_of_tensor(value)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, torch.SymInt):
        return _number(value)
    if type(value) not in _PLAIN:
        raise _Unknown
    # 1, 1.0 and True are equal keys, and not equal arguments.
    return type(value), value


def _key_of_tensor(tensor: Tensor) -> Any:
    inner = tensor
    if isinstance(tensor, FunctionalTensor):
        inner = torch._from_functional_tensor(tensor.elem)
    # The values of a constant may decide about sizes.
    if not isinstance(inner, FakeTensor) or inner.constant is not None:
        raise _Unknown
    if tensor.requires_grad and torch.is_grad_enabled():
        raise _Unknown
    return _form(tensor)


def _form(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.layout != torch.strided:
        raise _Unknown
    sizes, strides = (tuple(map(_number, n)) for n in (tensor.shape, tensor.stride()))
    return sizes, strides, tensor.dtype, tensor.device


def _forms(result: Any, arguments: Any) -> Any:
    """The forms of results that share no memory with each other or with an argument."""
    tensors = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
    given = [t for t in tree_leaves(arguments) if isinstance(t, Tensor)]
    if any(type(t) is not FakeTensor for t in tensors):
        raise _Unknown
    memory = [t.untyped_storage()._cdata for t in (*tensors, *given)]
    if len(set(memory)) < len(tensors) + len(set(memory[len(tensors) :])):
        raise _Unknown
    return _form_of(result)


def _form_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _form(value)
    if isinstance(value, tuple):
        return [_form_of(part) for part in value]
    if value is None:
        return None
    raise _Unknown


def _empty(form: Any, symbols: ShapeEnv | None) -> Any:
    if form is None:
        return None
    if isinstance(form, list):
        return tuple(_empty(part, symbols) for part in form)
    sizes, strides, dtype, device = form
    numbers = [[_size(number, symbols) for number in part] for part in (sizes, strides)]
    return torch.empty_strided(*numbers, dtype=dtype, device=device)


def _size(number: int | _Symbol, symbols: ShapeEnv | None) -> Any:
    if isinstance(number, int):
        return number
    assert symbols is not None
    return symbols.create_symintnode(number.expression, hint=number.hint)
