"""Writes graphs for people: pbtxt (opens in netron), txt, and py."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx

from anabranch.extension import find_user_line

from ._errors import UnsupportedOption
from ._graph import Descriptor, Graph, Node, convert, optimized
from .configs._table import TUNE
from .configs.compiler_config import CompilerConfig, raw
from .core.utils import logger

# TensorFlow's names, which viewers know, of the types of a GraphDef.
_TF_TYPES = {
    "DT_FLOAT16": "DT_HALF",
    "DT_BF16": "DT_BFLOAT16",
    "DT_UNDEFINED": "DT_INVALID",
    "DT_COMPLEX32": "DT_INVALID",
}


class Dumps:
    """The dumps of one graph that the configuration asks for."""

    def __init__(self, config: CompilerConfig, number: int) -> None:
        self._kind = raw(config, "debug.graph_dump.type")
        self._folder = raw(config, "debug.graph_dump.path")
        self._number = number
        self._captures = config.mode.value != TUNE
        self._graph: Graph | None = None
        if self._captures and self._kind not in (None, "py"):
            raise UnsupportedOption(
                f"Graph dump for aclGraph only support 'py' type, but got: {self._kind}"
            )

    def write_original(self, module: torch.fx.GraphModule) -> None:
        """Also says in the log which node has which attribute."""
        if self._captures:
            self._write("original", lambda: [fx_program(module)])
        elif self._kind or logger.isEnabledFor(logging.DEBUG):
            graph = self._graph = convert(module, f"graph_{self._number}")
            self._write("original", lambda: WRITERS[self._kind](graph))

    def write_optimized(self, module: torch.fx.GraphModule) -> None:
        if self._captures:
            self._write("optimized", lambda: [fx_program(module)])
        elif self._graph is not None:
            graph = optimized(self._graph)
            self._write("optimized", lambda: WRITERS[self._kind](graph))

    def _write(self, stage: str, lines: Callable[[], Iterable[str]]) -> None:
        """A failure is told, not raised."""
        if self._kind is None:
            return
        target = self._folder or "."
        path = os.path.join(target, _file_name(stage, self._number, self._kind))
        try:
            os.makedirs(target, exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in lines())
        except OSError as error:
            print(f"dump {self._kind} failed {error}", flush=True)
        else:
            logger.debug("dumped %s graph %d to %s", stage, self._number, path)


def _file_name(stage: str, number: int, kind: str) -> str:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d%H%M%S%f")
    return (
        f"dynamo_{stage}_graph_{number}_rank_{rank()}_pid_{os.getpid()}_ts_{now}.{kind}"
    )


def rank() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return 0


# pbtxt: TensorFlow's GraphDef as text


def write_pbtxt(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield "node {"
        yield f"  name: {_quoted(node.name)}"
        yield f"  op: {_quoted(node.type)}"
        # A GraphDef has its edges of control last, with a caret.
        edges = sorted(node.inputs, key=lambda text: text.endswith(":-1"))
        for text in edges:
            control = text.endswith(":-1")
            shown = f"^{text.removesuffix(':-1')}" if control else text
            yield f"  input: {_quoted(shown)}"
        for side, descriptors in _sides(node):
            for descriptor in descriptors:
                key = _quoted(f"[{side}]{descriptor.name}")
                yield from _attribute(key, _tf_descriptor(descriptor))
        for key, value in node.attributes.items():
            yield from _attribute(_quoted(key), _typed(value))
        yield "}"


def _sides(node: Node) -> tuple[tuple[str, list[Descriptor]], ...]:
    return ("i", node.input_descriptors), ("o", node.outputs)


def _attribute(key: str, value: str) -> Iterator[str]:
    yield "  attr {"
    yield f"    key: {key}"
    yield f"    value {{ {value} }}"
    yield "  }"


def _tf_descriptor(descriptor: Descriptor) -> str:
    kind = _TF_TYPES.get(descriptor.dtype, descriptor.dtype)
    if kind.startswith("DT_FLOAT8"):
        kind = "DT_INVALID"
    return f"s: {_quoted(f'{kind}{descriptor.shape}')}"


def _typed(value: Any) -> str:
    """An attribute's value in protobuf's text form, by its type."""
    if isinstance(value, list | tuple):
        return f"list {{ {' '.join(map(_typed, value))} }}"
    if isinstance(value, bool):
        return f"b: {str(value).lower()}"
    if isinstance(value, int):
        return f"i: {value}"
    if isinstance(value, float):
        return f"f: {value!r}"
    return f"s: {_quoted(value if isinstance(value, bytes) else str(value))}"


def _quoted(text: str | bytes) -> str:
    data = text.encode("utf-8") if isinstance(text, str) else text
    plain = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"}
    return (
        '"'
        + "".join(
            plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
            for byte in data
        )
        + '"'
    )


# txt: the engine's graph, field by field


def write_txt(graph: Graph) -> Iterator[str]:
    yield f"name: {_quoted(graph.name)}"
    for node in graph.nodes:
        yield "op {"
        yield f"  name: {_quoted(node.name)}"
        yield f"  type: {_quoted(node.type)}"
        for text in node.inputs:
            yield f"  input: {_quoted(text)}"
        for key, value in node.attributes.items():
            yield from _attribute(_quoted(key), _typed(value))
        for field, descriptors in (
            ("input_desc", node.input_descriptors),
            ("output_desc", node.outputs),
        ):
            for descriptor in descriptors:
                yield f"  {field} {{"
                yield f"    name: {_quoted(descriptor.name)}"
                yield f"    dtype: {descriptor.dtype}"
                dims = " ".join(f"dim: {size}" for size in descriptor.shape)
                yield f"    shape {{ {dims} }}" if dims else "    shape { }"
                yield '    layout: "ND"'
                yield "  }"
        yield "}"


# py: a program that can be read


def write_py(graph: Graph) -> Iterator[str]:
    yield "import torch"
    yield "from torchair import ge"
    yield ""
    for node in graph.nodes:
        yield from _comments(node)
        data = [_variable(text) for text in node.inputs if not text.endswith(":-1")]
        orders = [
            text.removesuffix(":-1") for text in node.inputs if text.endswith(":-1")
        ]
        if node.type == "NetOutput":
            yield f"ge.NetOutput([{', '.join(data)}])"
            continue
        words = [*data, *(f"{k}={v!r}" for k, v in node.attributes.items())]
        if orders:
            words.append(f"dependencies=[{', '.join(orders)}]")
        results = [f"{node.name}_{i}" for i in range(len(node.outputs))]
        names = ", ".join(results if len(results) > 1 else [node.name])
        yield f"{names} = ge.{node.type}({', '.join(words)})"
        if len(results) == 1:
            yield f"{results[0]} = {node.name}"


def _variable(text: str) -> str:
    return text.replace(":", "_")


def _comments(node: Node) -> Iterator[str]:
    if node.source is None or node.source.op != "call_function":
        return
    yield ""
    yield from stack_comments(node.source)
    yield f"## FX Code: {node.source.format_node()}"


def stack_comments(node: torch.fx.Node) -> Iterator[str]:
    """The user's line behind a node."""
    found = find_user_line(node)
    if found is not None:
        yield (
            f'# File "{found.file}", line {found.line}, in {found.function},'
            f" code: {found.code}"
        )


def fx_program(module: torch.fx.GraphModule) -> str:
    """The code of an FX graph, each line under the user's line that it is from."""
    return module.print_readable(print_output=False)


WRITERS: dict[str, Callable[[Graph], Iterator[str]]] = {
    "pbtxt": write_pbtxt,
    "txt": write_txt,
    "py": write_py,
}
