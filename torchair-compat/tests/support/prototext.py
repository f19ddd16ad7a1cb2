"""Reads protobuf's text form, strictly: only the fields that a message has."""

from __future__ import annotations

import re
from typing import Any

Message = dict[str, list[Any]]

# Fields of TensorFlow's GraphDef by message: "str", "int", "float", "bool",
# "enum", or the name of another message.
GRAPH_DEF = {
    "GraphDef": {"node": "NodeDef", "versions": "VersionDef"},
    "NodeDef": {
        "name": "str",
        "op": "str",
        "input": "str",
        "device": "str",
        "attr": "AttrEntry",
    },
    "AttrEntry": {"key": "str", "value": "AttrValue"},
    "AttrValue": {
        "s": "str",
        "i": "int",
        "f": "float",
        "b": "bool",
        "type": "enum",
        "list": "ListValue",
    },
    "ListValue": {"s": "str", "i": "int", "f": "float", "b": "bool", "type": "enum"},
}

# The engine's graph, as the type "txt" writes it.
ENGINE = {
    "Graph": {"name": "str", "op": "Op"},
    "Op": {
        "name": "str",
        "type": "str",
        "input": "str",
        "attr": "AttrEntry",
        "input_desc": "Descriptor",
        "output_desc": "Descriptor",
    },
    "Descriptor": {
        "name": "str",
        "dtype": "enum",
        "shape": "Shape",
        "layout": "str",
    },
    "Shape": {"dim": "int"},
    **{k: GRAPH_DEF[k] for k in ("AttrEntry", "AttrValue", "ListValue")},
}

_TOKEN = re.compile(r'\s*("(?:[^"\\\n]|\\.)*"|[{}:]|[^\s{}:"]+)')
_SHAPES = {
    "str": re.compile(r'".*"'),
    "int": re.compile(r"-?\d+"),
    "float": re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf|nan)"),
    "bool": re.compile("true|false"),
    "enum": re.compile(r"[A-Z]\w*"),
}


class _Reader:
    def __init__(self, text: str, schema: dict[str, dict[str, str]]) -> None:
        self.tokens = _TOKEN.findall(text)
        assert not _TOKEN.sub("", text).strip(), "not protobuf's text form"
        self.at = 0
        self.schema = schema

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def message(self, kind: str, closes: bool) -> Message:
        fields = self.schema[kind]
        found: Message = {}
        while self.at < len(self.tokens):
            name = self.next()
            if name == "}" and closes:
                return found
            assert name in fields, f"{kind} has no field {name}"
            found.setdefault(name, []).append(self.value(fields[name]))
        assert not closes, f"{kind} is not closed"
        return found

    def value(self, kind: str) -> Any:
        token = self.next()
        if kind in self.schema:
            assert token == "{", f"{kind} does not open"
            return self.message(kind, closes=True)
        assert token == ":", f"no value, but {token}"
        token = self.next()
        assert _SHAPES[kind].fullmatch(token), f"{token} is no {kind}"
        return _unquoted(token) if kind == "str" else token


def _unquoted(token: str) -> str:
    """Octal bytes are UTF-8."""
    raw = token[1:-1].encode("ascii").decode("unicode_escape")
    return raw.encode("latin-1").decode("utf-8")


def graph_def(text: str) -> list[Message]:
    """The nodes of a GraphDef. Names are unique, inputs exist and come first."""
    nodes = _Reader(text, GRAPH_DEF).message("GraphDef", closes=False)["node"]
    known: set[str] = set()
    for node in nodes:
        (name,) = node["name"]
        assert name not in known
        orders = [text.startswith("^") for text in node.get("input", [])]
        assert orders == sorted(orders), "edges that only order come last"
        for edge in node.get("input", []):
            assert edge.removeprefix("^").partition(":")[0] in known, (name, edge)
        known.add(name)
    return nodes


def engine_graph(text: str) -> Message:
    return _Reader(text, ENGINE).message("Graph", closes=False)


def attributes(node: Message) -> dict[str, Message]:
    return {entry["key"][0]: entry["value"][0] for entry in node.get("attr", [])}
