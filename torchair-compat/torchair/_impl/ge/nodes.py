"""The functions by which converters make IR nodes. PyTorch computes a node when it is
made, inside the trace of the graph with the converter's operator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from anabranch import CompileError

from . import attributes
from . import operators as _operators  # noqa: F401 - registers the IR operators
from .definitions import Definition, find
from .types import DataType, Node, Tensor, dtype_of

__all__ = [
    "Cast",
    "Clone",
    "Const",
    "auto_convert_to_tensor",
    "by_name",
    "custom_op",
    "shape_of",
]

_KINDS = [
    f"ge.attr.{name}" for name in sorted(attributes.__all__) if name != "Attribute"
]


def Const(
    v: Any,
    dtype: DataType | None = None,
    node_name: str | None = None,
    readable: bool = True,
) -> Tensor:
    """A constant: a number, a list of numbers, or a tensor. Without a `dtype` it is the
    tensor's, else int64 or float32."""
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(v, torch.Tensor):
        value = v if wanted is None else v.to(wanted)
        return Tensor(Node("Const", [value], _known(v), node_name))
    parts = v if isinstance(v, list | tuple) else [v]
    symbolic = any(isinstance(part, torch.SymInt | torch.SymFloat) for part in parts)
    value = _symbolic(v, wanted) if symbolic else _real(v, wanted)
    return Tensor(Node("Const", [value], v, node_name))


def auto_convert_to_tensor(
    inputs_dynamic: Sequence[bool],
    inputs_optional: Sequence[bool],
    inputs_tensor_type: Sequence[Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of a function whose first arguments are tensors of a graph: numbers, and
    lists of them, become constants.

    inputs_dynamic   for each argument, whether it is a list of tensors
    inputs_optional  for each, whether it may be None
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        names = list(signature.parameters)[: len(inputs_dynamic)]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for name, is_list, optional in zip(names, inputs_dynamic, inputs_optional):
                value = bound.arguments.get(name)
                if value is None and not optional:
                    raise ValueError(f"{function.__name__}: {name} must not be None")
                if value is not None:
                    bound.arguments[name] = _as_tensors(value, is_list)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def _as_tensors(value: Any, is_list: bool) -> Any:
    if is_list:
        return [_as_tensors(one, False) for one in value]
    return value if isinstance(value, Tensor) else Const(value)


def _known(v: torch.Tensor) -> Any:
    """The numbers of a tensor that the trace did not make; None for other tensors."""
    if isinstance(v, FakeTensor):
        return None
    with _disable_current_modes():
        return v.tolist()


def _real(v: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """A tensor that the trace takes for a constant of the graph."""
    with _disable_current_modes():
        return torch.tensor(v, dtype=dtype)


def _symbolic(v: Any, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(v, list | tuple):
        return torch.stack([_symbolic(part, dtype) for part in v])
    return torch.scalar_tensor(v, dtype=dtype or torch.int64)


def Cast(
    x: Tensor,
    *,
    dst_type: DataType,
    dependencies: Sequence[Tensor] = (),
    node_name: str | None = None,
) -> Tensor:
    """`x` in the dtype `dst_type`."""
    made = _node(find("Cast"), {"x": x}, {"dst_type": dst_type}, node_name)
    return Tensor(made)


def Clone(
    x: Tensor, *, dependencies: Sequence[Tensor] = (), node_name: str | None = None
) -> Tensor:
    """A copy of `x`. AssertionError: `x` is no ge.Tensor."""
    for value in (x, *dependencies):
        assert isinstance(value, Tensor), (
            f"input '{value}' need to be Tensor, please check your input"
        )
    return Tensor(_node(find("Identity"), {"x": x}, {}, node_name))


def shape_of(x: Tensor, *, dtype: int = 3) -> Tensor:
    """The operator Shape. Operators that need a constant know its value."""
    return Const(list(x.value.shape), DataType(dtype))


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Any = None,
    outputs: Any = None,
    attrs: Any = None,
    node_name: str | None = None,
) -> Any:
    """A node of an operator.

    op_type        its name
    args           inputs and attributes in the operator's order, instead of dicts
    inputs, attrs  dicts by name, or None
    outputs        names, or pairs of a name and a number for dynamic outputs

    Returns the result, or a tuple of results with a list for each dynamic output, or
    the node if it has no outputs. AssertionError: an argument has a wrong type.
    UnknownOperator: this host cannot compute the operator. CompileError: the operator
    has no such name.
    """
    if args:
        return _by_place(op_type, args, {}, node_name)
    end = f"for custom op '{op_type}'."
    _check_inputs(inputs, end)
    _check_attrs(attrs, end)
    _check_outputs(outputs, end)
    plain = {name: _plain(value) for name, value in (attrs or {}).items()}
    if op_type == "Shape":
        return shape_of(*(inputs or {}).values(), **plain)
    node = _node(find(op_type), inputs or {}, plain, node_name)
    return _results(node, outputs)


def by_name(op_type: str) -> Callable[..., Any]:
    """The function that makes nodes of an operator, with inputs and attributes by
    position or by name. UnknownOperator: this host cannot compute it."""
    if op_type == "Shape":
        return shape_of
    find(op_type)

    def make(
        *args: Any, dependencies: Any = (), node_name: str | None = None, **named: Any
    ) -> Any:
        return _by_place(op_type, args, named, node_name)

    make.__name__ = op_type
    return make


def _by_place(
    op_type: str, args: Sequence[Any], named: dict[str, Any], name: str | None
) -> Any:
    if op_type == "Shape":
        return shape_of(*args, **named)
    definition = find(op_type)
    names = [*definition.inputs, *definition.attrs]
    if len(args) > len(names):
        raise CompileError(
            f"{op_type} takes {len(names)} inputs and attributes, got {len(args)}"
        )
    given = dict(zip(names, args)) | named
    inputs = {n: v for n, v in given.items() if n not in definition.attrs}
    attrs = {n: _plain(v) for n, v in given.items() if n in definition.attrs}
    node = _node(definition, inputs, attrs, name)
    return _results(node, [f"y{i}" for i in range(definition.outputs)])


def _node(
    definition: Definition,
    inputs: dict[str, Any],
    attrs: dict[str, Any],
    name: str | None,
) -> Node:
    try:
        values = definition.call(inputs, attrs)
        if definition.writes:
            inputs[definition.writes].write(values[0])
    except (CompileError, AssertionError):
        raise
    except Exception as error:
        raise CompileError(
            f"the IR operator {definition.op_type} can't be computed: {error}"
        ) from error
    return Node(definition.op_type, values, name=name)


def _results(node: Node, outputs: Any) -> Any:
    """The results, grouped as `outputs` says."""
    if not outputs:
        return node
    if len(outputs) > len(node.values):
        raise CompileError(
            f"{node.type} has {len(node.values)} outputs, {len(outputs)} are asked for"
        )
    made = [_result(node, place, wanted) for place, wanted in enumerate(outputs)]
    return made[0] if len(made) == 1 else tuple(made)


def _result(node: Node, place: int, wanted: str | tuple[str, int]) -> Any:
    value: Any = node.values[place]
    if not isinstance(value, list):
        return Tensor(node, place)
    if isinstance(wanted, tuple) and wanted[1] != len(value):
        raise CompileError(
            f"{node.type} makes {len(value)} tensors for '{wanted[0]}', {wanted[1]} are"
            " asked for"
        )
    parts = Node(node.type, value, name=node.name)
    return [Tensor(parts, index) for index in range(len(value))]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, attributes.Attribute) else value


def _check_inputs(inputs: Any, end: str) -> None:
    assert isinstance(inputs, dict | None), (
        f"Invalid input type:{_type(inputs)} vs expect one of [None, dict] {end}"
    )
    for name, value in (inputs or {}).items():
        start = f"Invalid input '{name}'"
        assert isinstance(value, Tensor | list | tuple | None), (
            f"{start} type:{_type(value)} vs expect one of"
            f" [None, ge.Tensor, list[ge.Tensor]] {end}"
        )
        parts = value if isinstance(value, list | tuple) else ()
        for place, part in enumerate(parts):
            assert isinstance(part, Tensor), (
                f"{start}[{place}] type:{_type(part)} vs expect 'ge.Tensor' {end}"
            )


def _check_attrs(attrs: Any, end: str) -> None:
    for name, value in (attrs or {}).items():
        assert isinstance(value, attributes.Attribute), (
            f"Invalid attr '{name}' type:{_type(value)} vs expect one of"
            f" [{', '.join(_KINDS)}] {end}"
        )


def _check_outputs(outputs: Any, end: str) -> None:
    assert isinstance(outputs, list | tuple | None), (
        f"Invalid output type:{_type(outputs)} vs expect one of [list, tuple] {end}"
    )
    for output in outputs or ():
        assert isinstance(output, str | tuple), (
            f"Invalid output type:{_type(output)} vs expect one of"
            f" [str, tuple[str, int]] {end}"
        )
        if isinstance(output, tuple):
            kinds = ", ".join(map(_type, output))
            assert kinds == "str, int", (
                f"Invalid output type:tuple[{kinds}] vs expect tuple[str, int] {end}"
            )


def _type(value: Any) -> str:
    return type(value).__name__
