"""Reads Dynamo's guards: which values, types and objects a trace depends on, and by which
expression a replay compares each."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ..bytecode import can_be_spelled, is_plain
from ..code_globals import IMPORTED
from ..recording import NotCacheable
from ..source import CODE_DIGEST

# For each kind of guard on a value: the expression that a replay compares instead.
_GUARDS = {
    "CONSTANT_MATCH": "{}",
    "EQUALS_MATCH": "{}",
    "CONSTANT_SUBCLASS_MATCH": "base_value({})",
    "SEQUENCE_LENGTH": "len({})",
    "DICT_CONTAINS": "tuple({})",
    "DICT_NOT_CONTAINS": "tuple({})",
    "DICT_KEYS_MATCH": "tuple({})",
    "MAPPING_KEYS_CHECK": "tuple({})",
    "EMPTY_NN_MODULE_HOOKS_DICT": "len({})",
}
# The same for guards on a key or a name.
_GUARDS_OF_KEYS = {
    "SET_CONTAINS": "{1} in {0}",
    "SET_NOT_CONTAINS": "{1} in {0}",
    "HASATTR": "hasattr({0}, {1})",
    "NOT_PRESENT_IN_GENERIC_DICT": "absent({0}, {1})",
}
# Guards on the identity of an object.
_IDENTITIES = {
    "BUILTIN_MATCH",
    "ID_MATCH",
    "FUNCTION_MATCH",
    "CLOSURE_MATCH",
    "CLASS_MATCH",
    "DUPLICATE_INPUT",
}
# Guards on the type of a value, beside what else they compare.
_OF_TYPES = {
    "TYPE_MATCH",
    "SEQUENCE_LENGTH",
    "DICT_KEYS_MATCH",
    "MAPPING_KEYS_CHECK",
    "TENSOR_MATCH",
}
_ONLY_TYPES = {"TYPE_MATCH", "TENSOR_MATCH"}
# Dicts that PyTorch makes in each module.
_DICTS_OF_MODULES = ("._parameters", "._buffers", "._modules")
# Guards that a replay needs not repeat. The executable or the entry's key compares
# dtypes, sizes and modes.
_ELSEWHERE = {
    "AUTOGRAD_SAVED_TENSORS_HOOKS",
    "DEFAULT_DEVICE",
    "DETERMINISTIC_ALGORITHMS",
    "DISPATCH_KEY_SET_MATCH",
    "DUAL_LEVEL",
    "FROZEN_LAYOUT",
    "FSDP_TRAINING_STATE",
    "FUNCTORCH_STACK_MATCH",
    "GLOBAL_STATE",
    "GRAD_MODE",
    "MODULE_MATCH",
    "NN_MODULE",
    "NOT_NONE_MATCH",
    "SHAPE_ENV",
    "TORCH_FUNCTION_STATE",
    "WEAKREF_ALIVE",
}
_CONTAINERS = "torch').utils._pytree.SUPPORTED_NODES"
# The code of a function. The recording compares what it does, later calls compare the
# object.
_CODE = ".__code__"
# A function of a class. The class finds it by its name.
_OF_CLASS = re.compile(r"dict\(type\((.*)\)\.__dict__\)\['(\w+)'\]")


@dataclasses.dataclass
class GuardedNames:
    """The sources that guards compare, by what is compared of them. The names are
    expressions that `Source` parses."""

    values: list[str] = dataclasses.field(default_factory=list)
    identities: list[str] = dataclasses.field(default_factory=list)
    types: list[str] = dataclasses.field(default_factory=list)
    tensors: list[str] = dataclasses.field(default_factory=list)


def guarded_names(context: Any) -> GuardedNames:
    """The names that the guards of a TracingContext compare. NotCacheable: a guard is of
    another kind."""
    found = GuardedNames()
    for guard in context.guards_context.dynamo_guards:
        name = _OF_CLASS.sub(r"\1.\2", guard.name)
        kind = guard.create_fn_name()
        if kind in _OF_TYPES and _has_type(guard.name):
            found.types.append(name)
            if kind == "TENSOR_MATCH":
                found.tensors.append(name)
        if name.endswith(_CODE) and kind in (*_IDENTITIES, "CONSTANT_MATCH"):
            found.values.append(f"{CODE_DIGEST}({name})")
            found.identities.append(name.removesuffix(_CODE))
        elif kind in _IDENTITIES:
            found.identities.append(name)
        elif kind not in _ELSEWHERE | _ONLY_TYPES and not is_private(name):
            found.values.append(_compared(kind, name, guard))
    return found


def _has_type(name: str) -> bool:
    """Whether the type of the value may differ between two modules or calls. The
    contents of a class are compared by the hashes of source files."""
    if is_private(name) or _OF_CLASS.search(name):
        return False
    return not name.endswith(_DICTS_OF_MODULES)


def _compared(kind: str, name: str, guard: Any) -> str:
    """The expression that a replay compares instead of a guard."""
    if kind in _GUARDS:
        return _GUARDS[kind].format(name)
    if kind in _GUARDS_OF_KEYS:
        partial = guard.create_fn
        key = [*partial.args, *partial.keywords.values()][0]
        if is_plain(key) and not can_be_spelled(key):
            return _GUARDS_OF_KEYS[kind].format(name, repr(key))
    raise NotCacheable(f"the trace depends on {name} in a way that has no name: {kind}")


def is_private(name: str) -> bool:
    """Whether the name of a source contains a name that only Dynamo knows, or is of
    PyTorch's table of containers: torch.cond and loops look up the types of their
    operands there."""
    return f"G['{IMPORTED}" in name or "___" in name or _CONTAINERS in name


def name_of(source: Any) -> str:
    """The name of one of Dynamo's own sources."""
    return source.name if isinstance(source.name, str) else source.name()
