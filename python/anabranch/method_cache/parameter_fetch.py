"""Dynamo's code without the walks from a module to its parameters.

A recorded method's code finds each parameter anew at every call, by a handful of
bytecodes. Here the call of the graph is written anew: it gets the module and what
is no parameter; the rest is found in C++ (python/bindings/calls/ModuleState.h).

Paths are pairs (attribute?, name): attributes of objects and items of dicts.
"""

from __future__ import annotations

import copy
import types
from typing import Any

import torch

from .source import Path, look_up

# What the code computes, as a tree: (kind, ...).
Tree = tuple[Any, ...]


def shorten(
    code: types.CodeType, graph: str, owner: str, module: Any
) -> tuple[types.CodeType, list[tuple[int, Path]] | None]:
    """The code, with `graph` called on `owner` (the method's first parameter) and
    the arguments that are not found from it, and the paths of the others by
    their numbers. Code of another form stays as it is, with None for paths."""
    from torch._dynamo.bytecode_transformation import transform_code_object

    found: list[tuple[int, Path]] = []

    def rewrite(instructions: list[Any], _options: dict[str, Any]) -> None:
        call = _Call(instructions, graph)
        paths = [_path(tree, owner) for tree in call.arguments]
        found.extend(
            (number, path)
            for number, path in enumerate(paths)
            if path is not None and isinstance(look_up(module, path), torch.Tensor)
        )
        cells = (*code.co_cellvars, *code.co_freevars)
        load = "LOAD_DEREF" if owner in cells else "LOAD_FAST"
        call.replace(_new(load, owner), {number for number, _ in found})

    try:
        return transform_code_object(code, rewrite)[0], found
    except (_OtherForm, ImportError):
        return code, None


class _OtherForm(Exception):
    """The code is not what Dynamo is known to write."""


class _Call:
    """The one call of a graph: its instructions and what its arguments are."""

    def __init__(self, instructions: list[Any], graph: str) -> None:
        self.instructions = instructions
        starts = [
            place
            for place, each in enumerate(instructions)
            if each.opname == "LOAD_GLOBAL" and each.argval == graph
        ]
        if len(starts) != 1:
            raise _OtherForm
        self.start = starts[0] + 1
        self.stack: list[Tree] = []
        self.temporaries: dict[str, Tree] = {}
        self.end = self._follow()
        self.arguments = self.stack

    def _follow(self) -> int:
        """Runs the code up to the call on trees; the place behind it."""
        for place in range(self.start, len(self.instructions)):
            each = self.instructions[place]
            if each.opname == "CALL" and each.arg == len(self.stack):
                return place + 1
            step = getattr(self, f"_{each.opname.lower()}", None)
            if step is None:
                raise _OtherForm
            step(each)
        raise _OtherForm

    def _load_fast(self, each: Any) -> None:
        self.stack.append(self.temporaries.get(each.argval, ("local", each)))

    def _load_deref(self, each: Any) -> None:
        self.stack.append(("local", each))

    def _load_global(self, each: Any) -> None:
        plain = copy.copy(each)
        if plain.arg & 1:
            self.stack.append(("null",))
            plain.arg &= ~1
        self.stack.append(("global", plain))

    def _load_const(self, each: Any) -> None:
        self.stack.append(("constant", each))

    def _load_attr(self, each: Any) -> None:
        self.stack.append(("attribute", self.stack.pop(), each))

    def _binary_subscr(self, each: Any) -> None:
        key = self.stack.pop()
        self.stack.append(("item", self.stack.pop(), key, each))

    def _push_null(self, each: Any) -> None:
        self.stack.append(("null",))

    def _copy(self, each: Any) -> None:
        self.stack.append(self.stack[-each.arg])

    def _store_fast(self, each: Any) -> None:
        self.temporaries[each.argval] = self.stack.pop()

    def _precall(self, each: Any) -> None:
        pass

    def _call(self, each: Any) -> None:
        base = len(self.stack) - each.arg
        if base < 2 or self.stack[base - 2] != ("null",):
            raise _OtherForm
        arguments, function = self.stack[base:], self.stack[base - 1]
        self.stack[base - 2 :] = [("call", function, arguments)]

    def replace(self, load_owner: Any, found: set[int]) -> None:
        """By a call on the owner and the arguments that are not in `found`."""
        from torch._dynamo.bytecode_transformation import create_call_function

        behind = self.instructions[self.end :]
        used = {each.argval for each in behind if each.opname == "LOAD_FAST"}
        kept = [t for n, t in enumerate(self.arguments) if n not in found]
        written: list[Any] = []
        for name in sorted(used & set(self.temporaries)):
            written += _write(self.temporaries[name]) + [_new("STORE_FAST", name)]
        written.append(load_owner)
        for tree in kept:
            written += _write(tree)
        written += create_call_function(len(kept) + 1, False)
        gone = set(self.temporaries) - used
        self.instructions[self.start :] = written + [
            each
            for each in behind
            if each.opname != "DELETE_FAST" or each.argval not in gone
        ]


def _new(name: str, value: Any) -> Any:
    from torch._dynamo.bytecode_transformation import create_instruction

    return create_instruction(name, argval=value)


def _write(tree: Tree) -> list[Any]:
    """The code that computes it."""
    from torch._dynamo.bytecode_transformation import (
        create_call_function,
        create_instruction,
    )

    kind, *parts = tree
    if kind in ("local", "global", "constant"):
        return [copy.copy(parts[0])]
    if kind == "attribute":
        return [*_write(parts[0]), copy.copy(parts[1])]
    if kind == "item":
        return [*_write(parts[0]), *_write(parts[1]), copy.copy(parts[2])]
    if kind == "call":
        arguments = [each for part in parts[1] for each in _write(part)]
        call = create_call_function(len(parts[1]), False)
        return [create_instruction("PUSH_NULL"), *_write(parts[0]), *arguments, *call]
    raise _OtherForm


def _path(tree: Tree, owner: str) -> Path | None:
    """How to find it from the owner, if it is so found."""
    path: list[tuple[bool, str | int]] = []
    while tree[0] in ("attribute", "item"):
        if tree[0] == "attribute":
            path.append((True, tree[2].argval))
        elif tree[2][0] == "constant" and isinstance(tree[2][1].argval, str):
            path.append((False, tree[2][1].argval))
        else:
            return None
        tree = tree[1]
    if tree[0] != "local" or tree[1].argval != owner or not path:
        return None
    return path[::-1]
