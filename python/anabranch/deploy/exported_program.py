"""Turns an ExportedProgram into the graph that AOTAutograd would give the backend, and
names its inputs and outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._export import verifier
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from .. import dynamo_lock
from ..capture.aot import export_decompositions, flatten, whole_composites
from ..describe.description import InputSource
from ..describe.symbol_table import bounds_of
from ..describe.symbols import Unsupported
from .trees import Key, Tree, is_key, leaves

aten = torch.ops.aten

_WEIGHTS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclasses.dataclass
class ExportedGraph:
    """The graph of an ExportedProgram, ready to be described.

    module, sources      as GraphReader takes them
    states               the buffers that the program writes
    parameters, results  trees (trees.py) over the placeholders that a call passes, and
                         over the outputs
    ranges               the sizes that the user allowed, for symbols that the trace
                         took for two or more
    """

    module: torch.fx.GraphModule
    sources: list[InputSource]
    states: dict[str, torch.Tensor]
    parameters: list[dict[str, Any]]
    results: Tree
    outputs: list[str]
    ranges: dict[str, dict[str, int]]  # of symbols, by their names in a description


def read_exported(program: ExportedProgram, forward: Any = None) -> ExportedGraph:
    """`forward` names the parameters; without it, they have the names of the program's
    inputs."""
    with (
        dynamo_lock.held(),
        torch.no_grad(),
        preserve_node_meta(),
        _without_notes(program),
        _with_writing_regions(),
    ):
        # PyTorch makes its table anew each time, in a twentieth of a second.
        table = export_decompositions()
        program = program.run_decompositions(table)
        with whole_composites():
            flatten(program.graph_module, table)
    reader = _ExportedReader(program)
    reader.write_mutations()
    reader.name_inputs()
    results, outputs = reader.name_outputs()
    program.graph_module.recompile()
    return ExportedGraph(
        program.graph_module,
        reader.sources,
        reader.states,
        reader.parameters(forward),
        results,
        outputs,
        {
            str(symbol): bounds_of(bounds)
            for symbol, bounds in program.range_constraints.items()
        },
    )


@contextlib.contextmanager
def _with_writing_regions() -> Iterator[None]:
    """Lets torch.export keep the writes at the end of a region's graph, which its check of
    a decomposed program refuses. `flatten` makes results of them, and the description
    refuses a write that is left."""
    functional = verifier.is_functional
    verifier.is_functional = lambda op: op is aten.copy_.default or functional(op)
    try:
        yield
    finally:
        verifier.is_functional = functional


@contextlib.contextmanager
def _without_notes(program: ExportedProgram) -> Iterator[None]:
    """Removes notes on nodes that refer to a function hidden from Dynamo. torch.export
    refuses to run decompositions if another such function then makes the node."""
    taken = []
    for node in program.graph.nodes:
        if custom := node.meta.get("custom"):
            taken.append((node, custom))
            node.meta["custom"] = {
                key: note
                for key, note in custom.items()
                if not key.startswith("_torchdynamo_disable")
            }
    try:
        yield
    finally:
        for node, custom in taken:
            node.meta["custom"] = custom


class _ExportedReader:
    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = program.graph_module.graph
        self.signature = program.graph_signature
        nodes = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.placeholders = {node.name: node for node in nodes}
        self.sources: list[InputSource] = []
        self.states: dict[str, torch.Tensor] = {}
        self.passed: list[str] = []  # the placeholders that a call passes, in order
        self.output = next(n for n in self.graph.nodes if n.op == "output")

    def write_mutations(self) -> None:
        """Turns results that go into an input into writes at the end of the graph."""
        specs = self.signature.output_specs
        values = list(self.output.args[0])
        self.mutated: set[str] = set()
        buffers = {s.target: s.arg.name for s in self.signature.input_specs}
        kept = []
        for spec, value in zip(specs, values):
            if spec.kind not in (*_MUTATIONS, OutputKind.USER_OUTPUT):
                raise Unsupported(f"a result of the kind {spec.kind.name}")
            if spec.kind is OutputKind.USER_OUTPUT:
                kept.append(value)
                continue
            is_buffer = spec.kind is OutputKind.BUFFER_MUTATION
            name = buffers[spec.target] if is_buffer else spec.target
            self.mutated.add(name)
            target = self.placeholders[name]
            with self.graph.inserting_before(self.output):
                write = self.graph.call_function(aten.copy_.default, (target, value))
            write.meta["val"] = target.meta["val"]
        self.output.args = (tuple(kept),)

    # Inputs

    def name_inputs(self) -> None:
        seen: dict[Any, torch.fx.Node] = {}
        for spec in self.signature.input_specs:
            name = spec.arg.name
            node = self.placeholders[name]
            if spec.kind is InputKind.USER_INPUT:
                self._user_input(spec.arg, node)
            elif spec.kind in _WEIGHTS:
                self._weight(spec, node, seen)
            else:
                raise Unsupported(f"an input of the kind {spec.kind.name}")

    def _user_input(self, argument: Any, node: torch.fx.Node) -> None:
        if isinstance(argument, TensorArgument | SymIntArgument):
            self.sources.append(InputSource(argument.name))
            self.passed.append(argument.name)
        elif not isinstance(argument, ConstantArgument) or node.users:
            raise Unsupported(f"the argument {argument.name} is no tensor and no int")
        else:
            self.graph.erase_node(node)

    def _weight(self, spec: Any, node: torch.fx.Node, seen: dict[Any, Any]) -> None:
        value = self._value(spec.target)
        kind = _WEIGHTS[spec.kind]
        if node.name in self.mutated:
            self.sources.append(InputSource(spec.target, kind))
            self.passed.append(node.name)
            self.states[spec.target] = value.detach().contiguous()
            return
        key = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if value.numel() and key in seen:
            # A weight with two names is stored once.
            node.replace_all_uses_with(seen[key])
            self.graph.erase_node(node)
            return
        seen[key] = node
        self.sources.append(InputSource(spec.target, kind, value.detach()))

    def _value(self, name: str) -> torch.Tensor:
        for place in (self.program.state_dict, self.program.constants):
            if name in place:
                return place[name]
        raise Unsupported(f"{name} has no value")

    def parameters(self, forward: Any) -> list[dict[str, Any]]:
        """The arguments of `forward`, each with the tree of its inputs."""
        spec = self.program.call_spec.in_spec
        assert spec is not None
        positional, keywords = spec.children()
        arguments = [
            s.arg for s in self.signature.input_specs if s.kind is InputKind.USER_INPUT
        ]
        todo = iter(arguments)
        trees = [
            _tree(child, lambda: self._leaf(next(todo)))
            for child in (*positional.children(), *keywords.children())
        ]
        known = _parameters(forward)
        names = [p.name for p in known if p.kind in _POSITIONAL]
        # An argument beyond those that `forward` names is called as its first input.
        first = [next(iter(leaves(tree)), None) for tree in trees]
        names += [
            self.passed[leaf[0]] if leaf else f"argument{number}"
            for number, leaf in enumerate(first)
        ][len(names) :]
        names = [*names[: positional.num_children], *keywords.context]
        given = dict(zip(names, trees))
        keyword_only = set(keywords.context) if not known else set()
        described = []
        for parameter in known:
            fixed = _is_simple(parameter.default)
            if parameter.name not in given and not fixed:
                continue
            tree = given.pop(parameter.name, {"value": parameter.default})
            only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            described.append({"name": parameter.name, "tree": tree, "keyword": only})
        return described + [
            {"name": name, "tree": tree, "keyword": name in keyword_only}
            for name, tree in given.items()
        ]

    def _leaf(self, argument: Any) -> Tree:
        if argument.name in self.passed:
            return self.passed.index(argument.name)
        return _fixed(argument.value, argument.name)

    # Outputs

    def name_outputs(self) -> tuple[Tree, list[str]]:
        spec = self.program.call_spec.out_spec
        assert spec is not None
        values = iter(self.output.args[0])
        kept: list[Any] = []

        def leaf() -> Tree:
            value = next(values)
            if not isinstance(value, torch.fx.Node):
                return _fixed(value, "a result")
            kept.append(self._own(value))
            return len(kept) - 1

        tree = _tree(spec, leaf)
        self.output.args = (tuple(kept),)
        return tree, _distinct([_output_name(path) for _, path in leaves(tree)])

    def _own(self, node: torch.fx.Node) -> torch.fx.Node:
        """Copies a weight that is an output, since no caller passes its memory."""
        if node.op != "placeholder" or node.name in self.passed:
            return node
        with self.graph.inserting_before(self.output):
            copy = self.graph.call_function(aten.clone.default, (node,))
        copy.meta["val"] = node.meta["val"]
        return copy


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def _parameters(forward: Any) -> list[inspect.Parameter]:
    """The parameters of a function that have names of their own."""
    if forward is None:
        return []
    return [
        parameter
        for parameter in inspect.signature(forward).parameters.values()
        if parameter.kind in (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
    ]


def _is_simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _tree(spec: pytree.TreeSpec, leaf: Any) -> Tree:
    if spec.is_leaf():
        return leaf()
    children = [_tree(child, leaf) for child in spec.children()]
    if spec.type is type(None):
        return {"value": None}
    keys = _keys(spec)
    if keys is not None:
        return {"dict": [list(entry) for entry in zip(keys, children)]}
    return {"list" if spec.type is list else "tuple": children}


def _keys(spec: pytree.TreeSpec) -> Sequence[Key] | None:
    """The keys of a dict, or of a dataclass that is a dict (the output of a model)."""
    if not isinstance(spec.type, type) or not issubclass(spec.type, dict):
        return None
    context = spec.context
    keys = context if isinstance(context, list | tuple) else []
    # a defaultdict has its factory before the keys
    if keys and isinstance(keys[-1], list):
        keys = keys[-1]
    if len(keys) != spec.num_children:
        raise Unsupported(f"a {spec.type.__name__} whose keys are not known")
    if odd := [key for key in keys if not is_key(key)]:
        raise Unsupported(
            f"a {spec.type.__name__} with the key {odd[0]!r}: a package keeps strings, "
            "numbers, bools and None"
        )
    return keys


def _fixed(value: Any, where: str) -> Tree:
    if not _is_simple(value):
        raise Unsupported(f"{where} is a {type(value).__name__}")
    return {"value": value}


def _output_name(path: str) -> str:
    if not path:
        return "output"
    return f"output{path}" if path[0].isdecimal() else path


def _distinct(names: list[str]) -> list[str]:
    """The names, where one that came before gets a number: the keys 1 and "1" of a dict
    have one path."""
    taken = set(names)
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            number = next(n for n in itertools.count(2) if f"{name}_{n}" not in taken)
            names[place] = f"{name}_{number}"
            taken.add(names[place])
        seen.add(name)
    return names
