"""Super kernels marked in the model: many operators, one launch.

    with anabranch.super_kernel("layer", "strict-scope-check=abort"):
        y = mlp(norm(x)) + x

Under torch.compile the scope marks the graph; in eager it only checks its
arguments. The kernels are those of the model without the scope, so that results
have the same bits. docs/design/superkernels.md says what the compiler makes of it.
"""

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
from .scope import annotated
from .unbroken import unbroken

# The keys of a node's annotations. The text of the options is for
# python/anabranch/marks/mark_order.py, which reads it once; src/import reads the others.
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
    """What a scope asks for. `strict`: "bypass" leaves a scope that can't be one
    unit unfused, "abort" refuses it; "" makes several units of it."""

    stream_fusion: bool = False
    strict: str = ""


@contextlib.contextmanager
def super_kernel(scope: str | None, options: str = "") -> Iterator[None]:
    """Operators inside become one launch, named `scope`; the innermost scope
    decides, and None (or "") takes operators out of the scopes around it.

    `options` are `name=value` with colons between them: `stream-fusion=1` makes
    the streams inside run at once, `strict-scope-check=abort` refuses a scope that
    can't be one launch, `strict-scope-check=bypass` leaves it as it is without.
    Operators whose sizes are not known when the graph is compiled, such as those of a
    batch beside the gears, run as launches; only strict-scope-check=abort refuses them.
    TypeError, ValueError: a name or options that are none.
    torch._dynamo.exc.Unsupported: the graph breaks inside.
    """
    if scope is not None and not isinstance(scope, str):
        raise TypeError(f"super_kernel() needs a string or None, got {scope!r}")
    if not isinstance(options, str):
        raise TypeError(f"the options of super_kernel() must be str: {options!r}")
    if not torch.compiler.is_compiling():
        parse(options)
    with (
        unbroken(f"anabranch.super_kernel({scope!r})"),
        annotated({SUPER: scope or "", OPTIONS: options}),
    ):
        yield


@functools.cache
def parse(text: str) -> SuperOptions:
    """The options that `text` spells. Raises ValueError, with the option and the
    reason."""
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
    """Name and value of one option; ValueError says why it is none."""
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
    """A graph is cut in `parts`, and PyTorch runs what is `outside`. Raises CompileError
    for a scope that must be one launch and does not lie in one part; warns of one that
    then stays as it is."""
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
        return scope, ""  # is said where the part is read


def _tell_of_cut(scope: str, strict: str, node: torch.fx.Node, reason: str) -> None:
    text = (
        f"super_kernel({scope!r}) is not one launch: the graph is cut, since {reason}"
        f"\n  {user_line(node)}"
    )
    if strict == "abort":
        raise CompileError(f"strict-scope-check=abort: {text}")
    warnings.warn(text, stacklevel=3)


def warn_of_breaks(report: Mapping[str, Any]) -> None:
    """Says which scopes with `strict-scope-check=bypass` are left unfused."""
    for entry in report.get("super_breaks", ()):
        if entry["bypassed"]:
            warnings.warn(
                f"super_kernel({entry['scope']!r}) is no super kernel:"
                f" {entry['reason']}\n  {entry['location']}",
                stacklevel=2,
            )
