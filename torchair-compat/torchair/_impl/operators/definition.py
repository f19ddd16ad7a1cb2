"""Defines the operators of torch_npu: `@npu_operator` above a function is all.

The function's signature is the schema of torch.ops.npu.<name>, which torch_npu has by the
same name (`published.py`). The function is a composition of ATen operators. It needs no
kernel and no shape function: PyTorch traces its parts, and the compiler fuses them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch.fx.node import has_side_effect
from torch.jit._builtins import _register_builtin

from anabranch.extension import is_traced

from ..device.tape import recorded_as_one, recorded_whole
from .checks import check, check_shape, naming
from .result_forms import remembering
from .schema import reserved_arguments, schema_of, signature_of

__all__ = [
    "COMPOSITIONS",
    "atb_operator",
    "atb_operator_of",
    "atb_overload",
    "called_by",
    "npu_attention",
    "npu_effect",
    "npu_function",
    "npu_operator",
    "npu_operator_of",
    "writing",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_LIBRARY = torch.library.Library("npu", "FRAGMENT")
# The operators of the transformer boost library.
_ATB = torch.library.Library("atb", "FRAGMENT")

# The function of each operator, by its overload.
COMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def npu_operator(function: _F) -> _F:
    """Defines an operator by a function of its name. Annotations of `schema.py` say which
    arguments are written, and which are reserved for other processors."""
    reserved = reserved_arguments(function)
    return _composition(function, schema_of(function), reserved)


def atb_operator(function: _F) -> _F:
    """`npu_operator` for an operator of torch.ops.atb. `torch_npu.atb` has it too, and
    torch_npu if its name begins with an underscore."""
    reserved = reserved_arguments(function)
    return _composition(function, schema_of(function), reserved, _ATB)


def atb_operator_of(schema: str) -> Callable[[_F], _F]:
    """`atb_operator` for a function whose arguments other forms of it share. `schema` is
    the text after the name."""
    return lambda function: _composition(function, schema, {}, _ATB)


def atb_overload(operator: str, overload: str, schema: str) -> Callable[[_F], _F]:
    """Defines another overload of an operator of torch.ops.atb, by a function of any
    name. `schema` is the text after the name."""

    def define(function: _F) -> _F:
        function.__name__ = operator
        _ATB.define(f"{operator}.{overload}{schema}")
        defined = getattr(getattr(torch.ops.atb, operator), overload)
        checked = naming(function, defined._schema)
        COMPOSITIONS[defined] = checked
        recorded = recorded_as_one(defined, remembering(checked, defined._schema))
        _ATB.impl(f"{operator}.{overload}", recorded, "CompositeImplicitAutograd")
        return function

    return define


def npu_operator_of(
    schema: str, taken_by: Callable[..., Any] | None = None
) -> Callable[[_F], _F]:
    """`npu_operator` for a function that takes `**options`: dozens of arguments, which it
    shares with other operators. `schema` is the text after the name; `taken_by` is the
    class of the arguments, if some of them are reserved."""
    reserved = reserved_arguments(taken_by) if taken_by else {}
    return lambda function: _composition(function, schema, reserved)


def _composition(
    function: _F,
    schema: str,
    reserved: dict[str, Any],
    library: torch.library.Library = _LIBRARY,
) -> _F:
    name = function.__name__
    library.define(f"{name}{schema}")
    packet = getattr(getattr(torch.ops, library.ns), name)
    overload = packet.default
    checked = naming(_refusing(reserved, function, overload._schema), overload._schema)
    COMPOSITIONS[overload] = checked
    recorded = recorded_as_one(overload, remembering(checked, overload._schema))
    library.impl(name, recorded, "CompositeImplicitAutograd")
    return _described(function, packet)


def writing(*names: str, workspace: bool = False) -> Callable[[_F], _F]:
    """Gives an operator the overload `out`, which writes the results to arguments of these
    names. With `workspace` it also takes an NPU's memory, which it does not touch."""

    def define(operator: _F) -> _F:
        packet = cast(torch._ops.OpOverloadPacket, operator)
        schema = packet.default._schema
        library, _, name = schema.name.partition("::")
        taken = str(schema).partition("(")[2].rpartition(") -> ")[0]
        kinds = [f"Tensor({letter}!)" for letter in "abcd"[: len(names)]]
        given = ", ".join(f"{kind} {what}" for kind, what in zip(kinds, names))
        # The boost library takes them by place.
        between = ", *, " if library == "npu" and "*," not in taken else ", "
        made = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        given = f"Tensor? workspace=None, {given}" if workspace else given
        home = _ATB if library == "atb" else _LIBRARY
        home.define(f"{name}.out({taken}{between}{given}) -> {made}")
        run = COMPOSITIONS[packet.default]

        def write(*args: Any, **kwargs: Any) -> Any:
            targets = tuple(kwargs.pop(what) for what in names)
            kwargs.pop("workspace", None)
            results = run(*args, **kwargs)
            results = (results,) if len(names) == 1 else results
            for what, target, result in zip(names, targets, results):
                check_shape(target, name, what, tuple(result.shape))
                target.copy_(result)
            return targets[0] if len(names) == 1 else targets

        recorded = recorded_as_one(packet.out, write)
        home.impl(f"{name}.out", recorded, "CompositeImplicitAutograd")
        return operator

    return define


def npu_effect(traced: Callable[..., None]) -> Callable[[_F], _F]:
    """Defines an operator that has an effect instead of a result. It stays a call in
    graphs; `traced` runs while a graph is made of it."""

    def define(function: _F) -> _F:
        name = function.__name__
        _LIBRARY.define(f"{name}{schema_of(function)}")
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"npu::{name}", traced, lib=_LIBRARY)
        packet = getattr(torch.ops.npu, name)
        has_side_effect(packet.default)
        return _described(function, packet)

    return define


def npu_attention(schema: str, lengths: tuple[str, str]) -> Callable[[_F], _F]:
    """`npu_operator_of` for an operator that returns (attention, log-sum-exp). A captured
    graph can change its arguments. Beside it stand overloads whose `lengths` are tensors,
    one that writes to `out`, and `_<name>_get_max_workspace`, since an NPU needs memory
    for it."""

    def define(function: _F) -> _F:
        name = function.__name__
        _define_of_tensors(function, schema, lengths)
        taken = schema.rpartition(") -> ")[0]
        _LIBRARY.define(f"{name}{schema}")
        _LIBRARY.define(
            f"{name}.out{taken}, Tensor? workspace=None, Tensor(a!)[] out) ->"
            " Tensor(a!)[]"
        )
        _LIBRARY.define(f"_{name}_get_max_workspace{taken}) -> Tensor")
        packet = getattr(torch.ops.npu, name)
        for overload, run in (
            (packet.default, function),
            (packet.out, _writing_to_out(function)),
        ):
            checked = naming(run, overload._schema)
            COMPOSITIONS[overload] = checked
            _LIBRARY.impl(
                overload.name().removeprefix("npu::"),
                recorded_whole(overload, remembering(checked, overload._schema)),
                "CompositeImplicitAutograd",
            )
        for_workspace = f"_{name}_get_max_workspace"
        _LIBRARY.impl(for_workspace, _no_workspace, "CompositeImplicitAutograd")
        getattr(torch.ops.npu, for_workspace).__doc__ = "An empty tensor."
        return _described(function, packet)

    return define


def _define_of_tensors(
    function: Callable[..., Any], schema: str, lengths: tuple[str, str]
) -> None:
    """Defines the overloads of a function that take tensors for one of the `lengths`, or
    both. PyTorch takes the first that fits. So they come before the overload of lists,
    for which it would read a tensor's values, and that with most tensors is the first."""
    name = function.__name__
    for tensors in (lengths, lengths[:1], lengths[1:]):
        taken = schema
        for what in tensors:
            taken = taken.replace(f"SymInt[]? {what}=None", f"Tensor {what}")
        kind = "_".join(("of", *tensors))
        _LIBRARY.define(f"{name}.{kind}{taken}")
        overload = getattr(getattr(torch.ops.npu, name), kind)
        checked = naming(_reading(function, tensors), overload._schema)
        COMPOSITIONS[overload] = checked
        whole = recorded_whole(overload, remembering(checked, overload._schema))
        _LIBRARY.impl(f"{name}.{kind}", whole, "CompositeImplicitAutograd")


def _reading(
    function: Callable[..., Any], names: tuple[str, ...]
) -> Callable[..., Any]:
    """Eager code reads the arguments `names`, since it works on as many rows as there
    are. In a graph they are data."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in names:
            given = kwargs[name]
            if isinstance(given, torch.Tensor):
                wide = given.to(torch.int64)
                kwargs[name] = wide if is_traced() else wide.tolist()
        return function(*args, **kwargs)

    return call


def _writing_to_out(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__

    @functools.wraps(function)
    def write(*args: Any, out: Any, workspace: Any = None, **kwargs: Any) -> Any:
        check(len(out) == 2, name, f"out must have 2 tensors, got {len(out)}")
        has_sums = kwargs.get("softmax_lse_flag", kwargs.get("return_softmax_lse"))
        made = function(*args, **kwargs)[: 2 if has_sums else 1]
        for place, (given, new) in enumerate(zip(out, made)):
            check_shape(given, name, f"out[{place}]", tuple(new.shape))
            given.copy_(new)
        return out

    return write


def _no_workspace(query: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return query.new_empty(0)


def npu_function(function: _F) -> _F:
    """Marks a function that torch_npu has, but torch.ops.npu has not."""
    return function


def called_by(caller: Callable[..., Any]) -> Callable[[_F], _F]:
    """Publishes this function in place of the operator that it calls. It adds arguments
    that a caller does not have."""

    def replace(packet: _F) -> _F:
        caller.__name__ = caller.__qualname__ = packet.__name__
        caller.__doc__ = packet.__doc__
        caller.__signature__ = inspect.signature(packet)  # type: ignore[attr-defined]
        return cast(_F, caller)

    return replace


def _described(function: _F, packet: torch._ops.OpOverloadPacket) -> _F:
    """The operator with the function's documentation and a signature. Type checkers take it
    for the function."""
    name = function.__name__
    signature = signature_of(packet.default._schema)
    packet.__signature__ = signature
    # help() of an object that is no function prints its text only.
    packet.__doc__ = f"{name}{signature}\n\n{inspect.cleandoc(function.__doc__ or '')}"
    if "input" in signature.parameters:
        _take_input_for_self(packet)
    return cast(_F, packet)


def _take_input_for_self(packet: torch._ops.OpOverloadPacket) -> None:
    """Lets callers give the first argument as `input=` too where the schema calls it
    `self`."""
    operator = packet._op

    def call(*args: Any, **kwargs: Any) -> Any:
        if "input" in kwargs:
            kwargs["self"] = kwargs.pop("input")
        return operator(*args, **kwargs)

    if packet.default._schema.arguments[0].name == "self":
        packet._op = call
        # TorchScript finds its operators by the identity of the functions.
        _register_builtin(call, packet._qualified_op_name)


def _refusing(
    reserved: dict[str, Any], function: Callable[..., Any], schema: torch.FunctionSchema
) -> Callable[..., Any]:
    """The function. NotImplementedError for a value of an argument `reserved` that is not
    its default."""
    if not reserved:
        return function
    names = [a.name for a in schema.arguments if not a.kwarg_only]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args)) | kwargs
        for name, default in reserved.items():
            value = given.get(name, default)
            if value != default:
                raise NotImplementedError(
                    f"{function.__name__}: {name} must be {default!r}, got {value!r}: it"
                    " is for other processors"
                )
        return function(*args, **kwargs)

    return call
