"""Registers the operators of torch_npu as torch.ops.npu: compositions of ATen
operators.

A composition needs no kernel and no shape function. PyTorch traces its parts, and the
compiler fuses them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import torch

from ..device.tape import recorded_whole

LIBRARY = torch.library.Library("npu", "FRAGMENT")

# The function of each operator, by its overload.
COMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def operator(
    schema: str, reserved: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that registers the function under its name in torch.ops.npu. `schema`
    is the text behind the name. The function does not get the arguments `reserved`, which
    are for other processors: a caller may give their defaults only."""

    def register(function: Callable[..., Any]) -> Any:
        name = function.__name__
        LIBRARY.define(f"{name}{schema}")
        packet = getattr(torch.ops.npu, name)
        schema_ = packet.default._schema
        checked = _naming(_leaving_out(reserved, function, schema_), schema_)
        LIBRARY.impl(name, checked, "CompositeImplicitAutograd")
        COMPOSITIONS[packet.default] = checked
        packet.__doc__ = function.__doc__
        return packet

    return register


def attention(schema: str) -> Callable[[Callable[..., Any]], Any]:
    """`operator` for one that returns (attention, log-sum-exp). A captured graph can
    change its arguments. Beside it stand an overload that writes to `out`, and
    `_<name>_get_max_workspace`, since an NPU needs memory for it."""

    def register(function: Callable[..., Any]) -> Any:
        name = function.__name__
        taken = schema.rpartition(") -> ")[0]
        LIBRARY.define(f"{name}{schema}")
        LIBRARY.define(
            f"{name}.out{taken}, Tensor? workspace=None, Tensor(a!)[] out) ->"
            " Tensor(a!)[]"
        )
        LIBRARY.define(f"_{name}_get_max_workspace{taken}) -> Tensor")
        packet = getattr(torch.ops.npu, name)

        @functools.wraps(function)
        def write(*args: Any, out: Any, workspace: Any = None, **kwargs: Any) -> Any:
            check(len(out) == 2, name, f"out must have 2 tensors, got {len(out)}")
            has_sums = kwargs.get("softmax_lse_flag", kwargs.get("return_softmax_lse"))
            made = function(*args, **kwargs)[: 2 if has_sums else 1]
            for place, (given, new) in enumerate(zip(out, made)):
                check_shape(given, name, f"out[{place}]", tuple(new.shape))
                given.copy_(new)
            return out

        def workspace(query: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            return query.new_empty(0)

        for overload, written in ((packet.default, function), (packet.out, write)):
            checked = _naming(written, overload._schema)
            COMPOSITIONS[overload] = checked
            LIBRARY.impl(
                overload.name().removeprefix("npu::"),
                recorded_whole(overload, checked),
                "CompositeImplicitAutograd",
            )
        LIBRARY.impl(
            f"_{name}_get_max_workspace", workspace, "CompositeImplicitAutograd"
        )
        packet.__doc__ = function.__doc__
        return packet

    return register


def _leaving_out(
    reserved: Collection[str], function: Callable[..., Any], schema: Any
) -> Callable[..., Any]:
    """The function, without the arguments `reserved`, the last of their kind.
    NotImplementedError for a value that is not the default."""
    if not reserved:
        return function
    defaults = {a.name: a.default_value for a in schema.arguments if a.name in reserved}
    names = [a.name for a in schema.arguments if not a.kwarg_only]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args)) | kwargs
        for name, default in defaults.items():
            value = given.get(name, default)
            if value != default:
                raise NotImplementedError(
                    f"{function.__name__}: {name} must be {default!r}, got {value!r}: it"
                    " is for other processors"
                )
        kept = [arg for name, arg in zip(names, args) if name not in defaults]
        return function(*kept, **{k: v for k, v in kwargs.items() if k not in defaults})

    return call


# Errors of PyTorch's tracing have types of their own, and stay as they are.
_PLAIN = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


def _naming(function: Callable[..., Any], schema: Any) -> Callable[..., Any]:
    """Wraps the function: its errors name the operator, and list the arguments that the
    caller gave. RuntimeError for a tensor argument that is None, which PyTorch lets
    pass."""
    name = function.__name__
    needed = [
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.type.kind() == "TensorType"
    ]
    names = [a.name for a in schema.arguments if not a.kwarg_only]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            for place, argument in needed:
                given = args[place] if place < len(args) else kwargs.get(argument)
                check(given is not None, name, f"{argument} is needed")
            return function(*args, **kwargs)
        except _PLAIN as error:
            if type(error) not in _PLAIN:
                raise
            text = str(error)
            if not text.startswith(f"{name}: "):
                text = f"{name}: {text}"
            given = dict(zip(names, args)) | kwargs
            listed = ", ".join(f"{key} {_shown(v)}" for key, v in given.items())
            raise type(error)(f"{text}\n  arguments of {name}: {listed}") from error

    return call


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {tuple(value.shape)}"
    if isinstance(value, list | tuple) and any(
        isinstance(one, torch.Tensor) for one in value
    ):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def check(condition: bool, name: str, message: str) -> None:
    """RuntimeError with the operator's name, unless the condition holds."""
    if not condition:
        raise RuntimeError(f"{name}: {message}")


FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def check_dtype(
    value: torch.Tensor | None,
    name: str,
    argument: str,
    allowed: Collection[torch.dtype] = FLOATS,
) -> None:
    """RuntimeError, with the operator and the argument, unless the dtype is allowed."""
    known = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
    check(
        value is None or value.dtype in allowed,
        name,
        f"{argument} must be {known}, got {None if value is None else value.dtype}",
    )


def check_shape(
    value: torch.Tensor | None, name: str, argument: str, *allowed: tuple[Any, ...]
) -> None:
    """RuntimeError, with the operator and the argument, unless the shape is one of
    these."""
    if value is None:
        return
    shape = tuple(value.shape)
    if any(len(shape) == len(other) and shape == other for other in allowed):
        return
    known = " or ".join(dict.fromkeys(map(str, allowed)))
    check(False, name, f"{argument} must have shape {known}, got {shape}")


def to_int8(values: torch.Tensor) -> torch.Tensor:
    """Rounded half to even and clamped to -128..127."""
    return values.round().clamp(-128, 127).to(torch.int8)


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """Packs integers (..., 8 n) from -8 to 7 into int32 (..., n), the first of eight in
    the lowest four bits."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=values.device)
    nibbles = (values.to(torch.int32) & 15).unflatten(-1, (-1, 8)) << shifts
    return nibbles.sum(-1).to(torch.int32)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """Unpacks int32 (..., n) to int8 (..., 8 n): nibbles, the least significant one
    first."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    nibbles = (packed.unsqueeze(-1) >> shifts) & 15
    return ((nibbles ^ 8) - 8).to(torch.int8).flatten(-2)
