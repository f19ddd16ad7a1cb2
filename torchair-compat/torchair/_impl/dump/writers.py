"""Writes a picture as text: pbtxt (opens in netron), txt, and py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from anabranch.extension import find_user_line

from .picture import Descriptor, Graph, Node

__all__ = ["WRITERS", "fx_program"]

# Names of types in TensorFlow's GraphDef, which viewers know.
_TF_TYPES = {
    "DT_FLOAT16": "DT_HALF",
    "DT_BF16": "DT_BFLOAT16",
    "DT_UNDEFINED": "DT_INVALID",
    "DT_COMPLEX32": "DT_INVALID",
}

# pbtxt: TensorFlow's GraphDef as text


def write_pbtxt(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield "node {"
        yield f"  name: {_quoted(node.name)}"
        yield f"  op: {_quoted(node.type)}"
        # A GraphDef has edges of control at the end, with a caret.
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


# py: a program for people to read


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
    """The user's line of a node, as a comment."""
    found = find_user_line(node)
    if found is not None:
        yield (
            f'# File "{found.file}", line {found.line}, in {found.function},'
            f" code: {found.code}"
        )


def fx_program(module: torch.fx.GraphModule) -> str:
    """The code of an FX graph, with the user's line above each line of code."""
    return module.print_readable(print_output=False)


WRITERS: dict[str, Callable[[Graph], Iterator[str]]] = {
    "pbtxt": write_pbtxt,
    "txt": write_txt,
    "py": write_py,
}
