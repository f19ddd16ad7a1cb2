"""Frozen weights: what Dynamo still does for them at each call.

Its guards tell weights of another kind from those that were frozen, but not
other weights of the same kind; here they learn to. And it fetches what each
placeholder of its graph stands for at every call, from module to module and
dictionary to dictionary. The graph that it handed to a backend is the one it
reads that signature from afterwards, so a frozen weight that becomes an
attribute of the graph is fetched no more. The executable takes both signatures,
should a copy of the graph have been handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import LocalSource
from torch._guards import GuardsSet, TracingContext

from .. import _C
from ..describe.description import InputSource

Frozen = tuple[torch.fx.Node, torch.Tensor]


def _frozen(
    module: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> Iterator[Frozen]:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if len(placeholders) == len(sources):
        for node, source in zip(placeholders, sources):
            if source.constant is not None:
                yield node, source.constant


def guard(module: torch.fx.GraphModule, sources: Sequence[InputSource]) -> None:
    """Lets Dynamo compile again for other tensors than those that are frozen.
    What else it compares of them, one guard sees for all of them, and one of each
    dtype says what changed."""
    context = TracingContext.try_get()
    if context is None:
        return
    guards = context.guards_context.dynamo_guards
    dtypes: set[torch.dtype] = set()
    named: list[Any] = []
    for node, value in _frozen(module, sources):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is None:
            continue
        if value.dtype in dtypes:
            _forget(guards, source)
        dtypes.add(value.dtype)
        guards.add(source.make_guard(GuardBuilder.ID_MATCH))
        named.append(source)
        if root := _root(source):
            # Compilations for other modules don't count as those of this one.
            guards.add(root.make_guard(GuardBuilder.ID_MATCH))
    owners = [source.owner() for source in sources if source.owner is not None]
    if named and all(owner is not None for owner in owners):
        guards.add(named[0].make_guard(_layout_guard(_C.FrozenWeights(owners))))


def _layout_guard(weights: _C.FrozenWeights) -> Callable[..., None]:
    """A guard that each tensor lives and lies as it does: the executable follows
    other values by itself, other sizes need another trace."""

    def FROZEN_LAYOUT(builder: Any, guard: Any) -> None:
        text = ["the frozen weights lie as those that were compiled"]
        manager = builder.get_guard_manager(guard)
        try:
            manager.add_lambda_guard(weights, text, guard.user_stack)
        except TypeError:  # a PyTorch whose guards keep no stack
            manager.add_lambda_guard(weights, text)

    return FROZEN_LAYOUT


def _forget(guards: GuardsSet, source: Any) -> None:
    for found in guards.get_guards_for_source(source):
        if found.create_fn_name() == "TENSOR_MATCH":
            guards.inner.discard(found)


def _root(source: Any) -> LocalSource | None:
    """The module in a local variable that a tensor is reached through."""
    chain = [source]
    while (base := getattr(chain[-1], "base", None)) is not None:
        chain.append(base)
    through = len(chain) > 1 and chain[-2].guard_source.is_unspecialized_nn_module()
    return chain[-1] if through and isinstance(chain[-1], LocalSource) else None


def leave(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    compiled: Callable[..., Any],
) -> None:
    """`sources` of the placeholders of `module`, of which `compiled` is made."""
    frozen = list(_frozen(module, sources))
    if not frozen or not isinstance(compiled, _C.Executable):
        return
    kept = [i for i, source in enumerate(sources) if source.constant is None]
    if compiled.take_only(kept):
        for node, value in frozen:
            _become_attribute(module, node, value)


def _become_attribute(
    module: torch.fx.GraphModule, node: torch.fx.Node, value: torch.Tensor
) -> None:
    name = f"frozen_{node.name}"
    # Nobody runs the graph; the memory stays the user's alone.
    module.register_buffer(name, torch.empty_like(value, device="meta"))
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    attribute.meta = {k: v for k, v in node.meta.items() if k != "grapharg"}
    node.replace_all_uses_with(attribute)
    module.graph.erase_node(node)
