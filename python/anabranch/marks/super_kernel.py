"""Super kernels marked in the model: many operators, one launch.

    with anabranch.super_kernel("layer", "strict-scope-check=abort"):
        y = mlp(norm(x)) + x

Under torch.compile the scope marks the graph; in eager code it only checks its
arguments. The kernels are those of the model without the scope, so results have the
same bits. docs/design/superkernels.md says what the compiler makes of a scope."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from ..errors import CompileError
from ..location import user_line
from .scope import annotated, is_traced
from .unbroken import unbroken

# Keys of a node's annotations. mark_order.py parses the text of OPTIONS once;
# src/import reads the other keys.
SUPER = "anabranch.super"
OPTIONS = "anabranch.super_options"
FUSION = "anabranch.super_fusion"
STRICT = "anabranch.super_strict"

_CHOICES = {
    "stream-fusion": ("0", "1"),
    "strict-scope-check": ("bypass", "abort"),
}
NAMES = tuple(_CHOICES)


@dataclasses.dataclass(frozen=True)
class SuperOptions:
    """The options of a scope. `strict` says what happens to a scope that cannot be one
    launch: "bypass" leaves it unfused, "abort" refuses it, "" makes several launches of
    it."""

    stream_fusion: bool = False
    strict: str = ""


@contextlib.contextmanager
def super_kernel(scope: str | None, options: str = "") -> Iterator[None]:
    """Operators inside the block become one launch, named `scope`.

    scope    a string; the innermost scope decides. None or "" takes operators out of
             the scopes around the block
    options  `name=value`, with colons between several. `stream-fusion=1` runs the
             streams inside the scope at the same time. `strict-scope-check=abort`
             refuses a scope that cannot be one launch; `strict-scope-check=bypass`
             leaves it unfused

    Operators whose sizes are not known when the graph is compiled, such as those of a
    batch between the gears, run as launches of their own; only strict-scope-check=abort
    refuses them. TypeError, ValueError: a wrong name or option.
    torch._dynamo.exc.Unsupported: the graph breaks inside the block.
    """
    if scope is not None and not isinstance(scope, str):
        raise TypeError(f"super_kernel() needs a string or None, got {scope!r}")
    if not isinstance(options, str):
        raise TypeError(
            f"the options of super_kernel() must be a string, got {options!r}"
        )
    if not is_traced():
        parse(options)
    with (
        unbroken(f"anabranch.super_kernel({scope!r})"),
        annotated({SUPER: scope or "", OPTIONS: options}),
    ):
        yield


@functools.cache
def parse(text: str) -> SuperOptions:
    """The options that `text` spells. ValueError: the option that is wrong, and why."""
    found: dict[str, str] = {}
    for part in text.split(":") if text else ():
        name, value = check(part)
        if name in found:
            raise ValueError(f"super_kernel: the option {name} is given twice")
        found[name] = value
    return SuperOptions(
        found.get("stream-fusion") == "1", found.get("strict-scope-check", "")
    )


def check(part: str) -> tuple[str, str]:
    """Name and value of one option. ValueError: why it is not an option."""
    name, equals, value = (text.strip() for text in part.partition("="))
    if not equals or not name:
        raise ValueError(
            f"super_kernel: {part!r} is no option: they are name=value, with colons"
            " between them"
        )
    if name not in NAMES:
        raise ValueError(
            f"super_kernel: there is no option {name!r}; known: {', '.join(NAMES)}"
        )
    if value not in _CHOICES[name]:
        known = " or ".join(_CHOICES[name])
        raise ValueError(f"super_kernel: {name} must be {known}, got {value!r}")
    return name, value


def check_parts(
    parts: Sequence[Iterable[torch.fx.Node]],
    outside: Iterable[torch.fx.Node],
    reason: str,
) -> None:
    """Checks the scopes of a graph that was cut: `parts` are compiled, PyTorch runs the
    nodes `outside`.

    CompileError: a scope with strict-scope-check=abort is not in one part. A
    warning: a scope with strict-scope-check=bypass does not, and stays unfused.
    """
    where: dict[str, int] = {}
    for number, nodes in enumerate(parts):
        for node in nodes:
            scope, strict = _strict_scope(node)
            if strict and where.setdefault(scope, number) != number:
                _tell_of_cut(scope, strict, node, reason)
    for node in outside:
        scope, strict = _strict_scope(node)
        if strict:
            _tell_of_cut(scope, strict, node, reason)


def _strict_scope(node: torch.fx.Node) -> tuple[str, str]:
    custom = node.meta.get("custom") or {}
    scope = custom.get(SUPER, "")
    if not scope or node.op != "call_function":
        return scope, ""
    try:
        return scope, parse(custom.get(OPTIONS, "")).strict
    except ValueError:
        return scope, ""  # the reader of the part reports the option


def _tell_of_cut(scope: str, strict: str, node: torch.fx.Node, reason: str) -> None:
    text = (
        f"super_kernel({scope!r}) is not one launch: the graph is cut, since {reason}"
        f"\n  {user_line(node)}"
    )
    if strict == "abort":
        raise CompileError(f"strict-scope-check=abort: {text}")
    warnings.warn(text, stacklevel=3)


def warn_of_breaks(report: Mapping[str, Any]) -> None:
    """Warns of scopes with `strict-scope-check=bypass` that the compiler left unfused."""
    for entry in report.get("super_breaks", ()):
        if entry["bypassed"]:
            warnings.warn(
                f"super_kernel({entry['scope']!r}) is no super kernel:"
                f" {entry['reason']}\n  {entry['location']}",
                stacklevel=2,
            )
