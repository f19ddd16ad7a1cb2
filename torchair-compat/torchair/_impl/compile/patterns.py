"""register_replacement: replaces the user's patterns with Inductor's pattern matcher.
The first registration imports the matcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from anabranch.extension import decompositions, traced_whole

from ..log import logger
from .fusions import MATCHED
from .stream_scopes import streams

__all__ = ["register_replacement", "replace_patterns"]

_passes: list[Any] = []  # a PatternMatcherPass, once a pattern is registered


def _always(match: Any) -> bool:
    return True


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., Any] | None = None,
    extra_check: Callable[[Any], bool] = _always,
    search_fn_pattern: Any = None,
    scalar_workaround: dict[str, Any] | None = None,
    skip_duplicates: bool = False,
) -> None:
    """Replaces `search_fn` by `replace_fn` in every graph that is compiled from now on.

    search_fn, replace_fn  functions of tensors
    example_inputs         their arguments, for the traces
    trace_fn               traces both; default: Inductor's `fwd_only`
    extra_check            a function of a match that may refuse it

    The other arguments are those of Inductor's register_replacement. A match on several
    streams stays as it is.
    """
    from torch._inductor import pattern_matcher

    if not _passes:
        _passes.append(pattern_matcher.PatternMatcherPass("torchair"))
    # A pattern is traced as the graphs are in which it is looked for.
    with traced_whole(MATCHED):
        pattern_matcher.register_replacement(
            search_fn,
            replace_fn,
            example_inputs,
            trace_fn or pattern_matcher.fwd_only,
            _passes[0],
            extra_check=lambda match: _is_on_one_stream(match) and extra_check(match),
            scalar_workaround=scalar_workaround,
            search_fn_pattern=search_fn_pattern,
            skip_duplicates=skip_duplicates,
            get_decomp_fn=decompositions,
        )


def replace_patterns(module: torch.fx.GraphModule) -> None:
    """Replaces the patterns in a graph whose scopes are still marks."""
    if not _passes:
        return
    count = _passes[0].apply(module)
    logger.debug("In fx_graph, find %d matched patterns", count)
    if count:
        module.graph.lint()
        module.recompile()


def _is_on_one_stream(match: Any) -> bool:
    nodes = set(match.nodes)
    found = {s for node, s in streams(match.graph) if node in nodes}
    if len(found) > 1:
        logger.debug(
            "Cross-stream operation detected in pattern match. The streams are %s."
            " Fusion is not supported for cross-stream operations.",
            sorted(map(str, found)),
        )
    return len(found) <= 1
