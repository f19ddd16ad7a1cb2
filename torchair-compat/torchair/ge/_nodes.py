"""What converters call to make IR nodes.

Compiled graphs never ask a converter here, so that these functions check their
arguments as torchair does and then say that there is no graph for a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from . import attr
from ._types import DataType, Tensor

__all__ = ["Cast", "Clone", "Const", "custom_op"]

_KINDS = [f"ge.attr.{name}" for name in sorted(attr.__all__)]


def Const(
    v: Any,
    dtype: DataType | None = None,
    node_name: str | None = None,
    readable: bool = True,
) -> NoReturn:
    """Raises NotImplementedError."""
    _refuse("Const")


def Cast(
    x: Tensor,
    *,
    dst_type: DataType,
    dependencies: Sequence[Tensor] = (),
    node_name: str | None = None,
) -> NoReturn:
    """Raises NotImplementedError."""
    _refuse("Cast")


def Clone(
    x: Tensor, *, dependencies: Sequence[Tensor] = (), node_name: str | None = None
) -> NoReturn:
    """Raises AssertionError for what is no ge.Tensor, then NotImplementedError."""
    for value in (x, *dependencies):
        assert isinstance(value, Tensor), (
            f"input '{value}' need to be Tensor, please check your input"
        )
    _refuse("Clone")


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Any = None,
    outputs: Any = None,
    attrs: Any = None,
    node_name: str | None = None,
) -> NoReturn:
    """Raises AssertionError for arguments of wrong types, then NotImplementedError."""
    end = f"for custom op '{op_type}'."
    if not args:
        _check_inputs(inputs, end)
        _check_attrs(attrs, end)
        _check_outputs(outputs, end)
    _refuse(f"custom_op('{op_type}')")


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
        assert isinstance(value, attr._Attribute), (
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


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"torchair.ge.{what}: this host has no graph of IR nodes; compiled graphs call"
        " the operator's own kernel (torch.library) and no converter"
    )
