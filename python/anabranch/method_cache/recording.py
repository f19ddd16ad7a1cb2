"""What one compilation of a method leaves behind, so that it can be replayed.

Nothing of this runs unless a Recorder is entered, by `cache_compile`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dis
import marshal
import os
import re
import shutil
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..describe.collectives import NAMESPACE
from . import bytecode, parameter_fetch
from .module_state import READERS
from .replay import file_hash, resolve

if TYPE_CHECKING:
    from ..describe.graph import Description, InputSource

COMPILED, IMPORTED, BUILTINS = "__compiled_fn", "__import_", "__builtins_dict__"
HIDDEN = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
# Guards of Dynamo's on what a source is, and what is compared in their place.
GUARDS = {
    "CONSTANT_MATCH": "{}",
    "EQUALS_MATCH": "{}",
    "SEQUENCE_LENGTH": "len({})",
    "DICT_CONTAINS": "tuple({})",
    "DICT_NOT_CONTAINS": "tuple({})",
    "DICT_KEYS_MATCH": "tuple({})",
    "EMPTY_NN_MODULE_HOOKS_DICT": "len({})",
}
# And those on which object a source is.
IDENTITIES = (
    "ID_MATCH",
    "FUNCTION_MATCH",
    "CLOSURE_MATCH",
    "CLASS_MATCH",
    "DUPLICATE_INPUT",
)
OF_CLASS = re.compile(r"dict\(type\((.*)\)\.__dict__\)\['(\w+)'\]")

_current: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar(
    "anabranch_recorder", default=None
)


def current() -> Recorder | None:
    return _current.get()


class NotCacheable(Exception):
    """Why a compilation can't be replayed."""


class Recorder:
    """Listens to the compilation of one method; `folder` is for the package."""

    def __init__(self, method: types.MethodType, folder: str) -> None:
        self.function = method.__func__
        self.module = method.__self__
        self.package = os.path.join(folder, "package")
        self.code: types.CodeType | None = None
        self.traces = 0
        self.refusal = ""
        self.calling: dict[str, Any] = {}
        self.described: Description | None = None
        self.places: dict[str, int] = {}  # of graph arguments, by their names
        self.readable = ""
        self.kernels: list[str] = []  # keys of static kernels that were added
        self.sources: dict[str, str] = {}
        self.names_before = set(self.function.__globals__)
        self._guards: list[str] = []
        self._identities: list[str] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        from torch._dynamo.convert_frame import register_bytecode_hook

        handle = register_bytecode_hook(self._translated)
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            handle.remove()

    def _translated(self, old: types.CodeType, new: types.CodeType) -> None:
        if old is self.function.__code__:
            self.code = new
            self.traces += 1

    def refuse(self, reason: str) -> None:
        self.refusal = self.refusal or reason

    # Called by the compiler's front end

    def keep(self, package: str) -> None:
        """A package was made, or found."""
        shutil.rmtree(self.package, ignore_errors=True)
        ignore = shutil.ignore_patterns("entry.json")
        shutil.copytree(package, self.package, ignore=ignore)

    def graph(
        self,
        module: torch.fx.GraphModule,
        described: Description,
        sources: Sequence[InputSource],
    ) -> None:
        """The graph behind the package that was kept last."""
        from torch._guards import TracingContext

        check_random(module)
        context = TracingContext.get()
        # Dynamo may start over; what came before is then void.
        self.refusal = ""
        if any(map(is_collective, module.graph.nodes)):
            self.refuse("its collectives belong to groups of this process")
        self.sources = source_hashes(context.traced_code)
        guards = [
            (guard.create_fn_name(), OF_CLASS.sub(r"\1.\2", guard.name))
            for guard in context.guards_context.dynamo_guards
        ]
        self._guards = [GUARDS[kind].format(n) for kind, n in guards if kind in GUARDS]
        self._identities = [name for kind, name in guards if kind in IDENTITIES]
        self.readable = module.print_readable(print_output=False)
        try:
            arguments = argument_positions(module)
            self.calling = calling(described, arguments, context.fw_metadata, module)
            for entry, source in zip(self.calling["inputs"], sources):
                entry |= {"kind": source.kind, "label": source.label}
            nodes = module.graph.find_nodes(op="placeholder")
            self.places = {n.name: place for n, place in zip(nodes, arguments)}
            self.described = described
        except NotCacheable as reason:
            self.refuse(str(reason))

    # What is stored

    def check(self) -> None:
        """Raises NotCacheable."""
        if self.traces != 1 or self.code is None:
            raise NotCacheable(f"it was traced {self.traces} times")
        if self.refusal:
            raise NotCacheable(self.refusal)
        if not self.calling or not os.path.isdir(self.package):
            raise NotCacheable("there is no graph to compile in it")

    def blob(self, locals_: Mapping[str, Any]) -> bytes:
        """The translated code, what its globals are, what was taken for constant
        while it was traced, and where parameters are found."""
        assert self.code is not None
        recipes = global_recipes(
            self.code, self.function.__globals__, self.names_before
        )
        (graph,) = (name for name, recipe in recipes.items() if recipe == ["graph"])
        owner = self.function.__code__.co_varnames[0]
        code, fetched = parameter_fetch.shorten(self.code, graph, owner, self.module)
        constants = [
            (name, bytecode.spelled(value), parameter_fetch.parse(name, self.function))
            for name, value in self._constants(locals_).items()
        ]
        identities = [
            (name, where)
            for name in dict.fromkeys(self._identities)
            if not _is_of_dynamo(name)
            and (where := parameter_fetch.parse(name, self.function)) is not None
        ]
        try:
            spelled = bytecode.spelled(code)
            return marshal.dumps((spelled, recipes, constants, identities, fetched))
        except ValueError as error:
            raise NotCacheable("its code holds an object") from error

    def _constants(self, locals_: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes and arguments that the trace depends on, by source."""
        scope = {"L": locals_, "G": self.function.__globals__}
        found: dict[str, Any] = {}
        for name in (
            *self._guards,
            *self._identities,
            *self.calling["guards_by_source"],
        ):
            if _is_of_dynamo(name):
                continue
            try:
                value = eval(name, {"__builtins__": READERS}, scope)
            except Exception:  # noqa: BLE001 - a source that only Dynamo can read
                value = self
            if is_plain(value):
                found[name] = value
        return found


def _is_of_dynamo(name: str) -> bool:
    """Whether a source's name holds one that only Dynamo knows."""
    return f"G['{IMPORTED}" in name or "___" in name


def is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    known = value is None or type(value) in (bool, int, float, str, bytes)
    return known or bytecode.can_be_spelled(value)


def source_hashes(traced: list[types.CodeType]) -> dict[str, str]:
    """The files that a trace went through, but for PyTorch's and ours."""
    names = {code.co_filename for code in traced}
    return {
        name: file_hash(name)
        for name in sorted(names)
        if not name.startswith(HIDDEN) and os.path.isfile(name)
    }


def check_random(module: torch.fx.GraphModule) -> None:
    inputs = sum(node.op == "placeholder" for node in module.graph.nodes)
    for node in module.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node):
            raise RuntimeError(
                "Cache compile does not support operator that depend on RNG,"
                f" input index: {inputs}. The operator is {node.target}."
            )


def is_collective(node: torch.fx.Node) -> bool:
    return str(node.target).startswith(f"{NAMESPACE}.")


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Operators with a dropout inside are random only where there is some."""
    schema: Any = node.target
    for place, argument in enumerate(schema._schema.arguments):
        if argument.name in ("dropout_p", "train", "training"):
            value = node.kwargs.get(argument.name, argument.default_value)
            value = node.args[place] if place < len(node.args) else value
            return not value
    return False


# How Dynamo's call becomes the program's


def argument_positions(module: torch.fx.GraphModule) -> list[int]:
    """The argument of Dynamo's graph behind each placeholder of AOT's."""
    found = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        described = node.meta.get("desc")
        if type(described).__name__ != "PlainAOTInput":
            raise NotCacheable(f"{node.name} is no argument of the traced function")
        found.append(described.idx)
    return found


def calling(
    described: Description,
    arguments: list[int],
    metadata: Any,
    module: torch.fx.GraphModule,
) -> dict[str, Any]:
    if metadata is None:
        raise NotCacheable("AOTAutograd does not say what its wrapper does")
    if metadata.num_mutated_inp_runtime_indices or metadata.tokens:
        raise NotCacheable("it changes its inputs outside of the graph")
    if metadata.num_intermediate_bases:
        raise NotCacheable("outputs share memory that only autograd knows")
    for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta):
        if type(meta).__name__ != "PlainTensorMeta":
            raise NotCacheable("a tensor subclass is among inputs and outputs")
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    positions = {node.name: index for node, index in zip(nodes, arguments)}
    guards, by_source = shape_guards(nodes, arguments)
    return {
        "arguments": len(metadata.input_info),
        "passed": [arguments[position] for position in described.passed],
        "copied": described.copied,
        "views": described.views,
        "aliases": [_alias(alias, arguments) for alias in described.aliases],
        "outputs": outputs(
            metadata.output_info,
            module,
            nodes,
            positions,
            {alias.output for alias in described.aliases},
        ),
        "inputs": [_input(node, index) for node, index in zip(nodes, arguments)],
        "guards": guards,
        "guards_by_source": by_source,
        "constants": [
            [positions[name], _hash(value)]
            for name, value in described.constants.items()
            if name in positions
        ],
    }


def _hash(value: torch.Tensor) -> str:
    from .. import _C

    return _C.hash_tensor(value.detach().contiguous())


def _alias(alias: Any, arguments: list[int]) -> list[Any]:
    base = alias.base if alias.of_output else arguments[alias.base]
    return [alias.output, base, alias.of_output, list(alias.geometry)]


def outputs(
    infos: list[Any],
    module: torch.fx.GraphModule,
    nodes: list[torch.fx.Node],
    positions: dict[str, int],
    viewed: set[int],
) -> list[Any]:
    """What AOT's wrapper makes of each output of the graph: nothing, an input,
    or a view of one that begins at a known distance from it. Those in `viewed`
    are views already."""
    (end,) = module.graph.find_nodes(op="output")
    found: list[list[Any]] = []
    for place, (info, node) in enumerate(zip(infos, end.args[0])):
        kind = info.output_type.name
        if kind in ("non_alias", "unsafe_view_alias"):
            found.append(["result"])
        elif kind == "is_input":
            found.append(["input", info.base_idx])
        elif kind == "alias_of_input" and place in viewed:
            found.append(["result"])
        elif kind == "alias_of_input":
            base = [n for n in nodes if positions[n.name] == info.base_idx]
            found.append(["view", info.base_idx, _distance(node, base)])
        else:
            raise NotCacheable(f"an output is of the kind {kind}")
    return found


def _distance(node: Any, bases: list[torch.fx.Node]) -> int:
    """How far into its base a view begins, in elements of the view."""
    if len(bases) != 1 or not isinstance(node, torch.fx.Node):
        raise NotCacheable("an output views what is no tensor of the caller's")
    value, base = node.meta["val"], bases[0].meta["val"]
    if value.untyped_storage()._cdata != base.untyped_storage()._cdata:
        raise NotCacheable("an output's memory is an input's, in no known way")
    start, free = _hint(base.storage_offset())
    at, symbols = _hint(value.storage_offset())
    if not symbols <= free:
        raise NotCacheable("an output begins at a distance that varies")
    bytes_ = at * value.element_size() - start * base.element_size()
    return bytes_ // value.element_size()


def _hint(offset: Any) -> tuple[int, set[str]]:
    """The number at hand, and the symbols that it varies with."""
    if not isinstance(offset, torch.SymInt):
        return offset, set()
    return offset.node.hint, {s.name for s in offset.node.expr.free_symbols}


def _input(node: torch.fx.Node, index: int) -> dict[str, Any]:
    from ..describe.symbols import Unsupported, integer

    value = node.meta.get("val")
    entry: dict[str, Any] = {"argument": index, "name": str(node.target)}
    try:
        if isinstance(value, torch.Tensor):
            entry["dtype"] = str(value.dtype)
            entry["shape"] = [integer(size) for size in value.shape]
            entry["strides"] = [integer(stride) for stride in value.stride()]
        elif isinstance(value, int | torch.SymInt):
            entry["expr"] = integer(value)
    except Unsupported as reason:
        raise NotCacheable(str(reason)) from reason
    return entry


def shape_guards(
    nodes: list[torch.fx.Node], arguments: list[int]
) -> tuple[list[Any], list[str]]:
    """What the trace took for granted of sizes, beyond limits of one symbol,
    which the program checks itself: [expression, names, arguments], and what
    only sources say, of sizes that the graph has no use for."""
    symbols: dict[str, int] = {}
    environment: Any = None
    for node, index in zip(nodes, arguments):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            environment = value.node.shape_env
            symbols.setdefault(str(value.node.expr), index)
    found, by_source = [], []
    for guard in getattr(environment, "guards", ()):
        names = sorted(symbol.name for symbol in guard.expr.free_symbols)
        if not names or _is_limit(guard.expr):
            continue
        if set(names) <= set(symbols):
            places = [symbols[name] for name in names]
            found.append([_printed(guard.expr), names, places])
        elif text := _by_source(guard.expr, environment):
            by_source.append(text)
    return found, by_source


def _by_source(expr: Any, environment: Any) -> str:
    """The expression over what Dynamo read the symbols from; empty when it
    does not say."""
    text = _printed(expr)
    known = getattr(environment, "var_to_sources", {})
    for symbol in expr.free_symbols:
        sources = known.get(symbol)
        if not sources:
            return ""
        name = sources[0].name
        name = name if isinstance(name, str) else name()
        name = name.replace("\\", r"\\")
        text = re.sub(rf"\b{re.escape(symbol.name)}\b", name, text)
    return text


def _is_limit(expr: Any) -> bool:
    """A symbol beside a number, or the holes between a dimension's gears. `!=`
    leaves no trace in the limits."""
    sides = getattr(expr, "args", ())
    if type(expr).__name__ == "Or" and len(expr.free_symbols) == 1:
        return all(map(_is_limit, sides))
    return (
        len(sides) == 2
        and type(expr).__name__ not in ("Unequality", "Equality")
        and {side.is_Symbol or side.is_Integer for side in sides} == {True}
    )


def _printed(expr: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(expr)


# Globals


def global_names(code: types.CodeType) -> set[str]:
    """What the code, and code inside of it, loads from its globals."""
    found = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= global_names(constant)
    return found


def global_recipes(
    code: types.CodeType, globals_: Mapping[str, Any], before: set[str]
) -> dict[str, list[Any]]:
    """How to make each global that Dynamo added."""
    recipes: dict[str, list[Any]] = {}
    for name in sorted(global_names(code)):
        if name not in globals_:
            continue  # a builtin
        value = globals_[name]
        if name.startswith(COMPILED):
            recipes[name] = ["graph"]
        elif name.startswith(BUILTINS):
            recipes[name] = ["builtins"]
        elif name in before and not name.startswith(IMPORTED):
            continue  # the module's own, which stays alive
        elif isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise NotCacheable(f"the module {value.__name__} can't be imported")
            recipes[name] = ["module", value.__name__]
        elif is_plain(value):
            recipes[name] = ["constant", value]
        else:
            recipes[name] = _attribute(name, value)
    if sum(recipe == ["graph"] for recipe in recipes.values()) != 1:
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
