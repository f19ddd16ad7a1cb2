"""Removes from Dynamo's code the walks from a module to its parameters.

A recorded method's code finds each parameter again at every call, by several bytecodes.
Dynamo's sources say which arguments of the graph these are. `shorten` removes them from
the graph's call and passes the module instead; C++ finds the parameters
(python/bindings/calls/ModuleState.h)."""

from __future__ import annotations

import dis
import types
from collections.abc import Collection, Sequence
from typing import Any


def shorten(
    code: types.CodeType, graph: str, owner: str, arguments: int, found: Collection[int]
) -> types.CodeType | None:
    """The code with a shorter call of `graph`: it gets `owner`, the method's first
    parameter, and those arguments whose numbers are not in `found`.

    None: the code does not have the form that is expected of Dynamo, one call of
    `graph` with this number of arguments.
    """
    from torch._dynamo.bytecode_transformation import (
        create_call_function,
        create_instruction,
        transform_code_object,
    )

    cells = (*code.co_cellvars, *code.co_freevars)
    load = "LOAD_DEREF" if owner in cells else "LOAD_FAST"

    def rewrite(instructions: list[Any], _options: dict[str, Any]) -> None:
        start, pieces, after = _split(instructions, graph)
        if len(pieces) != arguments:
            raise _OtherForm
        written: list[Any] = []
        # Dynamo keeps values that several arguments need in temporary variables. Going
        # from the last argument to the first tells which variables are read later.
        read = _locals(after, "LOAD_FAST")
        for number in reversed(range(arguments)):
            piece = pieces[number]
            if number in found:
                if not read & _locals(piece, "STORE_FAST"):
                    continue
                piece = [*piece, create_instruction("POP_TOP")]
            read |= _locals(piece, "LOAD_FAST")
            written[:0] = piece
        stored = {name for piece in pieces for name in _locals(piece, "STORE_FAST")}
        gone = stored - _locals(written, "STORE_FAST")
        instructions[start:] = [
            create_instruction(load, argval=owner),
            *written,
            *create_call_function(1 + arguments - len(found), False),
            *(i for i in after if i.opname != "DELETE_FAST" or i.argval not in gone),
        ]

    try:
        return transform_code_object(code, rewrite)[0]
    except (_OtherForm, ImportError):
        return None


class _OtherForm(Exception):
    """The code does not have the form that is expected of Dynamo."""


def _split(
    instructions: Sequence[Any], graph: str
) -> tuple[int, list[list[Any]], list[Any]]:
    """Splits the code at the one call of `graph`: where the code of its arguments
    begins, the code of each argument, and the code after the call."""
    starts = [
        place
        for place, each in enumerate(instructions, 1)
        if each.opname == "LOAD_GLOBAL" and each.argval == graph
    ]
    if len(starts) != 1:
        raise _OtherForm
    depth, end = 0, starts[0]
    while depth >= 0:  # the call also removes the graph from the stack
        if end == len(instructions):
            raise _OtherForm
        depth += _effect(instructions[end])
        end += 1
    call = instructions[end - 1]
    if call.opname != "CALL":
        raise _OtherForm
    stop = end - 2 if instructions[end - 2].opname == "PRECALL" else end - 1
    pieces: list[list[Any]] = []
    for _ in range(call.arg):
        # The shortest code that ends here and leaves one value on the stack.
        begin, missing = stop, 1
        while missing > 0:
            begin -= 1
            missing -= _effect(instructions[begin])
        pieces.insert(0, list(instructions[begin:stop]))
        stop = begin
    if stop != starts[0]:
        raise _OtherForm
    return stop, pieces, list(instructions[end:])


def _effect(instruction: Any) -> int:
    """The change of the stack's depth."""
    if instruction.opcode in (*dis.hasjrel, *dis.hasjabs):
        raise _OtherForm
    has_argument = instruction.opcode >= dis.HAVE_ARGUMENT
    return dis.stack_effect(
        instruction.opcode, instruction.arg if has_argument else None
    )


def _locals(instructions: Sequence[Any], opname: str) -> set[str]:
    """The variables that instructions with this name load or store."""
    return {each.argval for each in instructions if each.opname.startswith(opname)}
