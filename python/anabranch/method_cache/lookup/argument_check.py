"""Compares PyTorch's global state, and values that only an expression over a method's
arguments can reach, before each call of the method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import _C
from ..recording import Changed, Stale
from ..source import READERS, Source
from .global_state import staying
from .same_value import only_itself

Call = Callable[..., Any]
Wrap = Callable[[Call], Call]


def refusing(
    function: Any, constants: Sequence[tuple[Source, Any]], error: Exception
) -> Wrap:
    """A wrapper of calls that raises `error` for arguments whose values differ from
    these constants. If the comparison itself fails, the call gets the arguments and
    reports what is wrong."""
    holds = _arguments_hold(function, constants)
    if holds is None:
        return lambda call: call

    def wrap(call: Call) -> Call:
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                fits = holds(*args, **kwargs)
            except Exception:  # noqa: BLE001 - an argument's own comparison
                fits = True
            if not fits:
                raise error.with_traceback(None)
            return call(*args, **kwargs)

        return checked

    return wrap


def replaying(function: Any, constants: Sequence[tuple[Source, Any]]) -> Wrap:
    """A wrapper of a replay's calls. It raises Changed where PyTorch's global state is
    not that of now, and Stale for arguments that differ from these constants, lack a
    value or cannot compare it. Arguments that do not fit the method's parameters go to
    the call, which reports them."""
    stays = staying()
    holds = _arguments_hold(function, constants) or (lambda *_, **__: True)

    def wrap(call: Call) -> Call:
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not stays():
                raise Changed(
                    "PyTorch's default dtype, autocast, determinism or modes have changed"
                )
            try:
                fits = holds(*args, **kwargs)
            except Exception:  # noqa: BLE001 - an argument's own attribute or comparison
                fits = not _binds(function, args, kwargs)
            if not fits:
                raise Stale("an argument is not what the trace saw")
            return call(*args, **kwargs)

        return checked

    return wrap


def _binds(function: Any, args: Any, kwargs: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _arguments_hold(
    function: Any, constants: Sequence[tuple[Source, Any]]
) -> Callable[..., bool] | None:
    """A function of the method's arguments, the module first: whether the sources have
    these values. None: there are no sources to compare."""
    parameters = inspect.signature(function).parameters
    given = {*parameters}
    known: dict[str, Any] = {"G": function.__globals__, "__same": _C.same_value}
    conditions = []
    for number, (source, value) in enumerate(constants):
        text = source.over_arguments(given)
        if text is None:
            continue
        known[f"__known{number}"] = value
        conditions.append(
            f"({text}) is __known{number}"  # takes half the time
            if only_itself(value)
            else f"__same(({text}), __known{number})"
        )
    if not conditions:
        return None
    source_text = f"lambda {_spell(parameters, known)}: {' and '.join(conditions)}"
    return eval(source_text, {"__builtins__": READERS, **known})


def _spell(parameters: Mapping[str, inspect.Parameter], known: dict[str, Any]) -> str:
    """The text of a parameter list. Defaults become names in `known`."""
    words: list[str] = []
    starred = False
    kinds = [p.kind for p in parameters.values()]
    for number, (name, parameter) in enumerate(parameters.items()):
        kind = parameter.kind
        word = name
        if kind is parameter.VAR_POSITIONAL:
            word, starred = f"*{name}", True
        elif kind is parameter.VAR_KEYWORD:
            word = f"**{name}"
        elif kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        if parameter.default is not parameter.empty:
            known[f"__default{number}"] = parameter.default
            word += f"=__default{number}"
        words.append(word)
        following = kinds[number + 1 : number + 2]
        if kind is parameter.POSITIONAL_ONLY and following != [kind]:
            words.append("/")
    return ", ".join(words)
