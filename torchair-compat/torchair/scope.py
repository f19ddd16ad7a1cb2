"""Scopes of torchair: `with torchair.scope.npu_stream_switch("1"):`.

Each scope puts its attributes on every operator inside the block. Scopes nest; if two
have the same attribute, the inner one wins. Under torch.compile they cost nothing at
run time; in eager code they do nothing. A graph break inside a scope is an error."""

from __future__ import annotations

import contextlib as _contextlib
from collections.abc import Iterator as _Iterator

import torch as _torch

from anabranch.extension import unbroken_scope as _unbroken_scope

from ._impl.marks import operators as _air  # noqa: F401 - defines torch.ops.air

__all__ = [
    "data_dump",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]


@_contextlib.contextmanager
def _scope(what: str, keys: list[str], values: list[str]) -> _Iterator[None]:
    """`what` names the scope in messages."""
    with _unbroken_scope(f"torchair.scope.{what}"):
        _torch.ops.air.scope_enter(keys, values)
        try:
            yield
        finally:
            _torch.ops.air.scope_exit()


def npu_stream_switch(
    stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True
) -> _contextlib.AbstractContextManager[None]:
    """Operators inside the block run on the stream `stream_tag`; the same tag is the
    same stream. `stream_priority` and `enable_inner_parallel` have no effect on this
    host. TypeError: the tag is no string."""
    _check_text("npu_stream_switch", "stream_tag", stream_tag)
    return _scope(
        f"npu_stream_switch({stream_tag!r})",
        ["_user_stream_label", "_user_stream_priority", "_enable_inner_parallel"],
        [stream_tag, str(stream_priority), str(enable_inner_parallel)],
    )


def npu_wait_tensor(self: _torch.Tensor, dependency: _torch.Tensor) -> _torch.Tensor:
    """Returns `self`. Operators that come later on the current stream begin after
    `dependency` has been computed, whether they use the result or not. RuntimeError:
    the mode is not `max-autotune`."""
    return _torch.ops.air.wait_tensor(self, dependency)


def super_kernel(
    scope: str | None, options: str | None = ""
) -> _contextlib.AbstractContextManager[None]:
    """Operators inside the block become one launch.

    scope    its name; None takes operators out of the scopes around the block
    options  `name=value`, with colons between several (torchair-compat/README.md)

    TypeError: the name or the options are no strings.
    """
    name, options = scope or "", options or ""
    _check_text("super_kernel", "scope", name)
    _check_text("super_kernel", "options", options)
    return _scope(
        f"super_kernel({scope!r})",
        ["_super_kernel_scope", "_super_kernel_options"],
        [name, options],
    )


def _check_text(function: str, argument: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(
            f"{function}() argument '{argument}' must be str, but got"
            f" {type(value).__name__}."
        )


def limit_core_num(
    op_aicore_num: int | str, op_vectorcore_num: int | str
) -> _contextlib.AbstractContextManager[None]:
    """At most `op_aicore_num` workers compute each operator inside the block. The other
    argument has no effect on this host."""
    return _scope(
        f"limit_core_num({op_aicore_num!r}, {op_vectorcore_num!r})",
        ["_op_aicore_num", "_op_vectorcore_num"],
        [str(op_aicore_num), str(op_vectorcore_num)],
    )


def op_never_timeout(enable: bool = True) -> _contextlib.AbstractContextManager[None]:
    """Has no effect: no operator has a time limit on this host. TypeError: `enable` is
    no bool."""
    if not isinstance(enable, bool):
        raise TypeError(
            "op_never_timeout() argument 'enable' must be bool, but got"
            f" {type(enable).__name__}."
        )
    what = f"op_never_timeout({enable})"
    return _scope(what, ["_op_exec_never_timeout"], [str(enable)])


def data_dump() -> _contextlib.AbstractContextManager[None]:
    """Selects the operators inside the block for dumps of values, as `dump_config`
    says."""
    return _scope("data_dump()", ["torchair_enable_data_dump"], ["True"])
