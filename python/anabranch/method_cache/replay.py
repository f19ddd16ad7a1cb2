"""A recorded method, called again without Dynamo.

Imports nothing of the compiler's front end: what is here is what a warm start
costs.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib
import inspect
import itertools
import marshal
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _C
from ..describe.views import Alias, restore
from . import bytecode
from .module_state import READERS, ModuleTable, Stale, arguments_hold, look_up

Call = Callable[..., Any]

_numbers = itertools.count()


class Mismatch(AssertionError):
    """An argument that the compiled graph is not for."""


class Replay:
    """One entry that was read, for one method: `function` takes the module and
    the method's arguments. Its first call compares frozen values with the live
    ones, and where `strict` says so sizes and strides with those of the trace.
    Every call compares attributes, globals and arguments with what the trace took
    for constant, as far as they are found without running code; Stale if not."""

    def __init__(
        self,
        method: types.MethodType,
        blob: bytes,
        calling: Mapping[str, Any],
        executable: _C.Executable,
        strict: bool = False,
    ) -> None:
        code, recipes, constants, identities, fetched = marshal.loads(blob)
        self.method = method
        self.calling = calling
        self.executable = executable
        self.strict = strict
        self._constants = [(n, bytecode.read(v), where) for n, v, where in constants]
        self._fetched = fetched
        self._identities = identities
        self._compiled = graph_call(executable, calling)
        self._name = ""
        # Told the graph's arguments before its first call.
        self.noticed: Callable[[Sequence[Any]], None] | None = None
        self.function = self._link(bytecode.read(code), recipes)

    def _link(self, code: types.CodeType, recipes: Mapping[str, list[Any]]) -> Call:
        """The code as a function in the method's module, whose globals stay
        alive; what Dynamo added to them gets names that nothing else has."""
        function = self.method.__func__
        globals_ = function.__globals__
        renamed = {}
        for name, recipe in recipes.items():
            renamed[name] = f"__anabranch_{next(_numbers)}"
            globals_[renamed[name]] = self._make(recipe, renamed[name])
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if not set(code.co_freevars) <= set(cells):
            raise Stale("the method closes over other names")
        linked = types.FunctionType(
            rename(code, renamed),
            globals_,
            function.__name__,
            function.__defaults__,
            tuple(cells[name] for name in code.co_freevars),
        )
        linked.__kwdefaults__ = function.__kwdefaults__
        return linked

    def _make(self, recipe: list[Any], name: str) -> Any:
        kind, *words = recipe
        if kind == "graph":
            self._name = name
            return self._enter
        if kind == "builtins":
            return builtins.__dict__
        if kind == "constant":
            return words[0]
        if kind == "module":
            return bytecode.module(words[0])
        return resolve(*words)

    def check(self, args: Any, kwargs: Any) -> None:
        """Whether what the trace took for constant still is; Stale if not."""
        function, module = self.method.__func__, self.method.__self__
        scope = {
            "L": bind(function, module, args, kwargs),
            "G": function.__globals__,
        }
        source = f"[{', '.join(name for name, _, _ in self._constants)}]"
        try:
            values = eval(source, {"__builtins__": READERS}, scope)
        except Exception as error:
            raise Stale(f"a value can't be read: {error}") from error
        for value, (name, known, _) in zip(values, self._constants):
            if type(value) is not type(known) or value != known:
                raise Stale(f"{name} was {known!r} and is {value!r}")
        self._follow(values)

    def _follow(self, values: Sequence[Any]) -> None:
        """From here on every call compares what can be compared."""
        if self._fetched is None:
            return
        function = self.method.__func__
        table = ModuleTable(self.method.__self__, function)
        for number, path in self._fetched:
            table.fetch(number, path)
        left = [
            (name, value)
            for value, (name, _, where) in zip(values, self._constants)
            if not table.compare(name, value, where)
        ]
        for name, where in self._identities:
            table.identify(name, where)
        defaults = ("F", [(True, "__defaults__")], "")
        table.compare("the defaults", function.__defaults__, defaults)
        self._compiled = table.around(self._compiled, self.calling["arguments"])
        sizes = [row for row in left if row[0] in self.calling["guards_by_source"]]
        plain = [row for row in left if row not in sizes]
        if holds := arguments_hold(function, plain):
            error: Exception = Stale("an argument is not what the trace saw")
            self.function = refusing(self.function, holds, error)
        if holds := arguments_hold(function, sizes):
            text = " and ".join(name for name, _ in sizes)
            error = ValueError(f"an argument has sizes other than {text}")
            self.function = refusing(self.function, holds, error)

    def _enter(self, *given: Any) -> Any:
        """Stands for the compiled graph until the first call's arguments were
        looked at."""
        arguments = self._arguments(given)
        self._check(arguments)
        if self.noticed is not None:
            self.noticed(arguments)
        self.method.__func__.__globals__[self._name] = self._compiled
        return self._compiled(*given)

    def _arguments(self, given: Sequence[Any]) -> Sequence[Any]:
        """All of the graph's: those that the code passes and those it does not."""
        if self._fetched is None:
            return given
        fetched = dict(self._fetched)
        rest = iter(given[1:])
        return [
            look_up(given[0], fetched[number]) if number in fetched else next(rest)
            for number in range(self.calling["arguments"])
        ]

    def _check(self, arguments: Sequence[Any]) -> None:
        for index, known in self.calling["constants"]:
            value = arguments[index].detach().contiguous()
            if _C.hash_tensor(value) != known:
                raise Stale(f"frozen argument {index} has other values")
        if self.strict:
            check_sizes(self.calling["inputs"], arguments)


def refusing(call: Call, holds: Call, error: Exception) -> Call:
    """The call, for arguments that `holds`. What it can't even look at is the
    call's to refuse."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            fits = holds(*args, **kwargs)
        except Exception:  # noqa: BLE001 - of an argument of another type
            fits = True
        if not fits:
            raise error.with_traceback(None)
        return call(*args, **kwargs)

    return checked


def rename(code: types.CodeType, names: Mapping[str, str]) -> types.CodeType:
    constants = tuple(
        rename(constant, names) if isinstance(constant, types.CodeType) else constant
        for constant in code.co_consts
    )
    known = tuple(names.get(name, name) for name in code.co_names)
    return code.replace(co_consts=constants, co_names=known)


def load_executable(path: str, calling: Mapping[str, Any], threads: int) -> Any:
    return _C.Executable(
        path,
        threads=threads,
        check_hashes=False,
        passed=calling["passed"],
        copied=calling["copied"],
        arguments=calling["arguments"],
        views=[(output, kind, sizes) for output, kind, sizes in calling["views"]],
    )


def graph_call(executable: Call, calling: Mapping[str, Any]) -> Call:
    """Dynamo's graph as a function of its arguments: the executable, and what
    AOTAutograd's wrapper would have done around it."""
    boxed: Call = executable
    if calling["aliases"]:
        aliases = [
            Alias(output, base, of_output, tuple(geometry))
            for output, base, of_output, geometry in calling["aliases"]
        ]
        boxed = restore(executable, aliases)
    guards = [compile_guard(*row) for row in calling["guards"]]
    plan = list(enumerate(calling["outputs"]))
    views = [(i, *row[1:]) for i, row in plan if row[0] == "view"]
    inputs = [(i, row[1]) for i, row in plan if row[0] == "input"]
    if not (calling["aliases"] or guards or views or inputs):
        return executable

    def call(*arguments: Any) -> Any:
        for holds, places, text in guards:
            if not holds(*(arguments[place] for place in places)):
                raise Mismatch(f"the graph was traced for sizes with {text}")
        results = list(boxed(list(arguments)))
        for output, base, distance in views:
            results[output] = view_like(arguments[base], results[output], distance)
        for output, base in inputs:
            results[output] = arguments[base]
        return results

    return call


def compile_guard(text: str, names: list[str], places: list[int]) -> Any:
    source = f"lambda {', '.join(names)}: {text}"
    known = {"__builtins__": {}, "math": importlib.import_module("math")}
    known |= {"min": min, "max": max, "abs": abs}
    return eval(source, known), places, text


def view_like(base: torch.Tensor, result: torch.Tensor, distance: int) -> torch.Tensor:
    """The view of `base` that lies as `result` does."""
    if result.dtype != base.dtype:
        if result.is_complex() and not base.is_complex():
            base = torch.view_as_complex(base.view(*base.shape[:-1], -1, 2))
        elif base.is_complex() and not result.is_complex():
            base = torch.view_as_real(base)
        else:
            base = base.view(result.dtype)
    start = base.storage_offset() + distance
    return base.as_strided(result.shape, result.stride(), start)


def evaluate(expr: Any, symbols: Mapping[str, int]) -> int:
    """EXPR of the graph description."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return symbols[expr]
    kind, left, right = expr[0], *(evaluate(part, symbols) for part in expr[1:])
    return {
        "add": lambda: left + right,
        "mul": lambda: left * right,
        "sub": lambda: left - right,
        "floordiv": lambda: left // right,
        "ceildiv": lambda: -(-left // right),
        "mod": lambda: left % right,
        "min": lambda: min(left, right),
        "max": lambda: max(left, right),
        "pow": lambda: left**right,
    }[kind]()


def check_sizes(inputs: Sequence[Mapping[str, Any]], arguments: Sequence[Any]) -> None:
    """Each tensor is as the trace had it, symbols put in; empty ones are
    skipped."""
    symbols = {
        entry["expr"]: arguments[entry["argument"]]
        for entry in inputs
        if isinstance(entry.get("expr"), str)
    }
    for entry in inputs:
        value = arguments[entry["argument"]]
        if "shape" not in entry or not isinstance(value, torch.Tensor):
            continue
        for size in entry["shape"]:
            if isinstance(size, str):
                at = entry["shape"].index(size)
                symbols.setdefault(size, value.shape[at] if at < value.dim() else -1)
        if value.numel():
            check_tensor(entry, value, symbols)


def check_tensor(
    entry: Mapping[str, Any], value: torch.Tensor, symbols: Mapping[str, int]
) -> None:
    name = entry["name"]
    if len(entry["shape"]) != value.dim():
        raise Mismatch(
            f"{name}: wrong number of dimensions {len(entry['shape'])}"
            f" for expected {value.dim()}"
        )
    rows = zip(entry["shape"], entry["strides"], value.shape, value.stride())
    for dim, (size, stride, has_size, has_stride) in enumerate(rows):
        wants_size = evaluate(size, symbols)
        wants_stride = evaluate(stride, symbols)
        # The step along a dimension of one element means nothing.
        if has_size != wants_size or (has_size > 1 and has_stride != wants_stride):
            raise Mismatch(
                f"{name}: expected size {has_size}=={wants_size}, "
                f"stride {has_stride}=={wants_stride} at dim={dim}"
            )


def bind(function: Any, module: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The locals of a call, by name, and what the function closes over."""
    bound = inspect.signature(function).bind(module, *args, **kwargs)
    bound.apply_defaults()
    cells = function.__closure__ or ()
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        with contextlib.suppress(ValueError):
            closed[name] = cell.cell_contents
    return {**bound.arguments, **closed}


def code_digest(code: types.CodeType) -> str:
    """What a function does, wherever it stands."""
    hash_ = hashlib.sha256(code.co_code)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
    hash_.update(repr((names, code.co_argcount, code.co_kwonlyargcount)).encode())
    for constant in code.co_consts:
        hash_.update(_spell(constant).encode())
    return hash_.hexdigest()


def _spell(constant: Any) -> str:
    if isinstance(constant, types.CodeType):
        return code_digest(constant)
    if isinstance(constant, frozenset):
        return repr(sorted(map(repr, constant)))
    return f"{type(constant).__name__} {constant!r}"


def file_hash(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def resolve(module: str, path: str) -> Any:
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value
