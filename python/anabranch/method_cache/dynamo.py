"""Holds all that Anabranch knows of Dynamo's internals: guards, the globals and helpers
of its code, and the hook on the code that it makes.

A replay imports this module. Importing Dynamo takes seconds, so functions import it
where they need it."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .. import dynamo_lock
from .bytecode import can_be_spelled, global_names

UTILS = "torch._dynamo.utils"

# Dynamo adds globals whose names begin so.
_COMPILED, _IMPORTED, _BUILTINS = "__compiled_fn", "__import_", "__builtins_dict__"
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
# For the code of a function: the recording compares what it does, later calls compare
# the object.
_CODE, DIGEST = ".__code__", "code_digest("
# Sources inside a class. Its functions are compared by the hashes of source files.
OF_CLASSES = "dict(type("
_OF_CLASS = re.compile(r"dict\(type\((.*)\)\.__dict__\)\['(\w+)'\]")


class NotCacheable(Exception):
    """The compilation cannot be replayed; the message says why."""


@contextlib.contextmanager
def translations(
    seen: Callable[[types.CodeType, types.CodeType], None],
) -> Iterator[None]:
    """Inside the block, calls `seen` with each code that Dynamo reads and the code that
    it makes of it."""
    from torch._dynamo.convert_frame import register_bytecode_hook

    # Dynamo walks over its hooks while it compiles.
    with dynamo_lock.held():
        handle = register_bytecode_hook(seen)
    try:
        yield
    finally:
        with dynamo_lock.held():
            handle.remove()


@dataclasses.dataclass
class GuardedNames:
    """The sources that guards compare, by what is compared of them. The names are
    expressions that `Source` parses."""

    values: list[str] = dataclasses.field(default_factory=list)
    identities: list[str] = dataclasses.field(default_factory=list)
    types: list[str] = dataclasses.field(default_factory=list)
    tensors: list[str] = dataclasses.field(default_factory=list)


def guarded_names(context: Any) -> GuardedNames:
    """What the guards of a TracingContext compare. NotCacheable: there is a guard of
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
            found.values.append(f"{DIGEST}{name})")
            found.identities.append(name.removesuffix(_CODE))
        elif kind in _IDENTITIES:
            found.identities.append(name)
        elif kind not in _ELSEWHERE | _ONLY_TYPES and not is_private(name):
            found.values.append(_compared(kind, name, guard))
    return found


def _has_type(name: str) -> bool:
    """Whether the type of the value may differ between two modules or calls. What is
    inside a class is compared by the hashes of source files."""
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
    """Whether the name of a source contains a name that only Dynamo knows."""
    return f"G['{_IMPORTED}" in name or "___" in name


def name_of(source: Any) -> str:
    """The name of one of Dynamo's own sources."""
    return source.name if isinstance(source.name, str) else source.name()


def is_plain(value: Any) -> bool:
    """Whether a value can be saved and compared: it has no object of this process."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, value))
    known = value is None or type(value) in (bool, int, float, str, bytes)
    return known or can_be_spelled(value)


# Globals of Dynamo's code, and how another process makes them

GRAPH = ["graph"]


def global_recipes(
    code: types.CodeType, globals_: Mapping[str, Any], before: set[str]
) -> dict[str, list[Any]]:
    """For each global that Dynamo added: how to make it."""
    recipes: dict[str, list[Any]] = {}
    for name in sorted(global_names(code)):
        if name not in globals_:
            continue  # a builtin
        value = globals_[name]
        if name.startswith(_COMPILED):
            recipes[name] = GRAPH
        elif name.startswith(_BUILTINS):
            recipes[name] = ["builtins"]
        elif name in before and not name.startswith(_IMPORTED):
            continue  # the module's own global, which another process has too
        elif isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise NotCacheable(f"the module {value.__name__} can't be imported")
            recipes[name] = ["module", value.__name__]
        elif is_plain(value):
            recipes[name] = ["constant", value]
        else:
            recipes[name] = _attribute(name, value)
    if sum(recipe == GRAPH for recipe in recipes.values()) != 1:
        raise NotCacheable("it is not one graph")
    return recipes


def _attribute(name: str, value: Any) -> list[str]:
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return ["attribute", "torch", str(value).removeprefix("torch.")]
    module = getattr(value, "__module__", None)
    path = getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(path, str):
        try:
            if resolve(module, path) is value:
                return ["attribute", module, path]
        except (ImportError, AttributeError):
            pass
    raise NotCacheable(f"it refers to an object of this process: {name}")


def make_global(recipe: list[Any]) -> Any:
    """The value of a global; the graph is none of these."""
    kind, *words = recipe
    if kind == "builtins":
        return builtins.__dict__
    if kind == "constant":
        return words[0]
    if kind == "module":
        return helper_module(words[0])
    return resolve(*words)


def resolve(module: str, path: str) -> Any:
    """The value at a dotted path in a module."""
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


# Helpers that Dynamo's code calls


class _Utils(types.ModuleType):
    """Stands for torch._dynamo.utils. It has its own helpers for calls and sizes, and
    takes others from PyTorch's module when Dynamo's code asks for one."""

    @staticmethod
    def call_size(value: Any, dim: int) -> int:
        if dim >= value.dim():
            raise ValueError(
                f"an argument has shape {list(value.shape)}, and the method was compiled"
                f" for one with more dimensions"
            )
        return value.size(dim)

    @staticmethod
    def call_stride(value: Any, dim: int) -> int:
        return value.stride(dim)

    @staticmethod
    def call_storage_offset(value: Any) -> int:
        return value.storage_offset()

    @staticmethod
    def object_setattr_ignore_descriptor(value: Any, name: str, to: Any) -> None:
        object.__getattribute__(value, "__dict__")[name] = to

    @staticmethod
    def record_pregraph_bytecode_enter() -> None:
        return None

    @staticmethod
    def record_pregraph_bytecode_exit(entered: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(UTILS), name)


_utils = _Utils(UTILS)


def helper_module(name: str) -> Any:
    """The module of this name, or its stand-in."""
    return _utils if name == UTILS else importlib.import_module(name)
