"""Removes what Dynamo still does at each call for frozen weights.

Dynamo's guards do not tell a frozen weight from another weight of the same kind. A
guard of this module does.

Dynamo also fetches the value of each placeholder at every call, through modules and
dictionaries. After the backend returns, Dynamo reads from the same graph which values
to fetch. So a frozen weight that becomes an attribute of the graph is no longer
fetched. If a copy of the graph was handed over, Dynamo still passes the weights;
therefore the executable takes calls with them and without them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import LocalSource
from torch._guards import GuardsSet, TracingContext

from .. import _C
from ..describe.description import InputSource

# Under which a graph has what finds the weights that it does not fetch, by name.
_WEIGHTS = "anabranch_weights"
# Under which it says that its code is that of the graph with placeholders. Few graphs are
# run, so their code is not written anew before.
_STALE = "anabranch_stale"


class Frozen(NamedTuple):
    """A placeholder, its value, and what finds the user's tensor."""

    node: torch.fx.Node
    value: torch.Tensor
    owner: weakref.ref[torch.Tensor] | None


def _frozen(
    module: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> Iterator[Frozen]:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, source in zip(placeholders, sources, strict=True):
        if source.constant is not None:
            yield Frozen(node, source.constant, source.owner)


def guard(module: torch.fx.GraphModule, sources: Sequence[InputSource]) -> None:
    """Makes Dynamo compile again for other tensors than those that are frozen.

    Each tensor gets a guard on its identity. One guard compares the sizes and strides
    of all of them. One tensor of each dtype keeps Dynamo's own guard too, whose message
    says what changed.
    """
    context = TracingContext.try_get()
    if context is None:
        return
    guards = context.guards_context.dynamo_guards
    dtypes: set[torch.dtype] = set()
    named: list[Any] = []
    alike: set[Any] = set()
    roots: set[LocalSource] = set()
    for node, value, _ in _frozen(module, sources):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is None:
            continue
        if value.dtype in dtypes:
            alike.add(source)
        dtypes.add(value.dtype)
        guards.add(source.make_guard(GuardBuilder.ID_MATCH))
        named.append(source)
        if root := _root(source):
            roots.add(root)
    for root in roots:
        # Compilations for other modules do not count towards Dynamo's limit for this
        # one.
        guards.add(root.make_guard(GuardBuilder.ID_MATCH))
    _forget_tensor_guards(guards, alike)
    owners = [source.owner() for source in sources if source.owner is not None]
    if named and all(owner is not None for owner in owners):
        guards.add(named[0].make_guard(_layout_guard(_C.FrozenWeights(owners))))


def _layout_guard(weights: _C.FrozenWeights) -> Callable[..., None]:
    """A guard that each tensor still exists and has the same sizes and strides. The
    executable follows new values by itself; other sizes need another trace."""

    def FROZEN_LAYOUT(builder: Any, guard: Any) -> None:
        # Dynamo may skip the guards of a module whose attributes are those of the last
        # call (`use_recursive_dict_tags_for_guards`), and a weight's `data` is no
        # attribute. Guards at the end run at each call.
        builder.guard_manager.root.add_epilogue_lambda_guard(
            weights,
            ["the frozen weights lie as those that were compiled"],
            guard.user_stack,
        )

    return FROZEN_LAYOUT


def _forget_tensor_guards(guards: GuardsSet, sources: set[Any]) -> None:
    for found in list(guards.inner):
        if (
            found.create_fn_name() == "TENSOR_MATCH"
            and found.originating_source in sources
        ):
            guards.inner.discard(found)


def _root(source: Any) -> LocalSource | None:
    """The module in a local variable through which a tensor is reached."""
    chain = [source]
    while (base := getattr(chain[-1], "base", None)) is not None:
        chain.append(base)
    through = len(chain) > 1 and chain[-2].guard_source.is_unspecialized_nn_module()
    return chain[-1] if through and isinstance(chain[-1], LocalSource) else None


def stop_fetching(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    program: _C.Executable,
) -> None:
    """Turns the frozen placeholders of `module` into attributes, unless the program of
    this graph takes one of them."""
    frozen = list(_frozen(module, sources))
    if not frozen:
        return
    kept = [i for i, source in enumerate(sources) if source.constant is None]
    if program.take_only(kept):
        for weight in frozen:
            _become_attribute(module, weight)
        module.meta[_STALE] = True


def run(module: torch.fx.GraphModule, arguments: Sequence[Any]) -> Any:
    """Runs a graph in PyTorch, with the frozen weights that it does not fetch. They are
    alive: Dynamo's guards have found them."""
    weights = module.meta.get(_WEIGHTS)
    if not weights:
        return module.forward(*arguments)
    if module.meta.pop(_STALE, False):
        module.recompile()
    values = {name: find() for name, find in weights.items()}
    return torch.func.functional_call(module, values, tuple(arguments))


def _become_attribute(module: torch.fx.GraphModule, weight: Frozen) -> None:
    node, value, owner = weight
    name = f"frozen_{node.name}"
    # The attribute needs no memory: the weight stays the user's alone.
    module.register_buffer(name, torch.empty_like(value, device="meta"))
    module.meta.setdefault(_WEIGHTS, {})[name] = owner or (lambda: value)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    attribute.meta = {k: v for k, v in node.meta.items() if k != "grapharg"}
    node.replace_all_uses_with(attribute)
    module.graph.erase_node(node)
