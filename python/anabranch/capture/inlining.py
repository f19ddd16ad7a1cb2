"""Puts the operators of a region in the place of each call of the region.

`torch.compiler.nested_compile_region` has PyTorch trace equal layers once. The graph then
has a subgraph, and a call of it for each layer, with the weights of that layer:

    Before: %y = invoke_subgraph(%region, "subgraph_0", %x, %w)    region: relu(x @ w)
            %z = getitem(%y, 0)
    After:  %mm = aten.mm(%x, %w)
            %z = aten.relu(%mm)

PyTorch's `invoke_quant`, which marks a part of a graph for compilers that quantise it, is
such a call, too. So the graph is one program. Its equal kernels are compiled once anyway.
The copies get `meta["val"]` without a trace: the sizes of the subgraph, in memory of
their own."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from ..describe.regions.run_numbers import INVOKE
from ..describe.symbols import same
from ..describe.written import is_dense, storage
from .splicing import Memory

# The operators that call a region, and which of their arguments is the first operand.
_CALLS = {
    INVOKE: 2,
    torch.ops.higher_order.invoke_quant: 1,
    torch.ops.higher_order.invoke_quant_packed: 1,
}

# Notes that PyTorch makes on a call for its own compilers of regions.
_OF_CALLS = ("nested_region_config", "call_id")


def inline(module: GraphModule) -> None:
    """Replaces the calls of regions in an ATen graph, those inside of regions too. A
    region in which a size depends on data stays a call: each call has sizes of its own."""
    for child in module.children():
        if isinstance(child, GraphModule):
            inline(child)
    calls = [node for node in module.graph.nodes if node.target in _CALLS]
    if not calls:
        return
    # The mode of the trace would intercept each step of making a tensor.
    with _disable_current_modes():
        _inline_all(module, calls)
    for reader in module.graph.find_nodes(op="get_attr"):
        if not reader.users:
            module.graph.erase_node(reader)
    module.recompile()


def _inline_all(module: GraphModule, calls: list[Node]) -> None:
    regions: dict[str, _Region] = {}
    shared = _shared_memory(calls)
    for call in calls:
        name = str(_subgraph_node(call).target)
        if name not in regions:
            regions[name] = _Region(module, name, call, shared)
        if not regions[name].depends_on_data:
            regions[name].inline(call)


def _shared_memory(calls: list[Node]) -> set[int]:
    """The storages that results of several calls have in the trace. PyTorch gives the
    calls in a training graph the same results; in truth each call has its own."""
    found = [{storage(v) for v in call.meta["val"] if is_dense(v)} for call in calls]
    count = Counter(itertools.chain.from_iterable(found))
    return {memory for memory, calls_with_it in count.items() if calls_with_it > 1}


def forget_traces() -> None:
    """Has PyTorch trace regions anew: it keeps their traces, but a trace with
    functionalization must not reuse those of one without."""
    context = TracingContext.try_get()
    if context is not None:
        context.hop_dispatch_set_cache = type(context.hop_dispatch_set_cache)()


def keep_pure_traces() -> None:
    """Has PyTorch keep no trace of a region that writes in place. To see what a branch
    writes, PyTorch traces it without functionalization, and would later take the regions
    of this trace for those with functionalization."""
    context = TracingContext.try_get()
    if context is None:
        return
    cache: Any = context.hop_dispatch_set_cache.get_cache(INVOKE)
    keep = type(cache).add_proxy_dispatch_entry

    def keep_pure(identifier: str, trace: GraphModule) -> None:
        if not _writes_in_place(trace):
            keep(cache, identifier, trace)

    cache.add_proxy_dispatch_entry = keep_pure


def _writes_in_place(trace: GraphModule) -> bool:
    """Whether the graph has an operator that writes, also in a region within it."""
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        for part in trace.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
    )


def _subgraph_node(call: Node) -> Node:
    node = call.args[0]
    assert isinstance(node, Node)
    return node


class _Region:
    """A subgraph, and what its calls share."""

    def __init__(
        self, module: GraphModule, name: str, first: Node, shared: set[int]
    ) -> None:
        """`first` is the call whose arguments the subgraph was traced with."""
        body = module.get_submodule(name)
        assert isinstance(body, GraphModule)
        inline(body)
        nodes = list(body.graph.nodes)
        self.module = module
        self.body = body
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.nodes = [n for n in nodes if n.op not in ("placeholder", "output")]
        self.results: list[Any] = list(body.graph.output_node().args[0])
        self.depends_on_data = any("unbacked_bindings" in n.meta for n in nodes)
        self.first_notes = _notes(first)
        self.shared = shared
        self.attributes: dict[str, str] = {}

    def inline(self, call: Node) -> None:
        operands = list(call.args[_CALLS[call.target] :])
        copies = dict(zip(self.inputs, operands))
        with self.module.graph.inserting_before(call):
            for node in self.nodes:
                copies[node] = self._copy(node, copies, _notes(call))
        results = [copies[r] if isinstance(r, Node) else r for r in self.results]
        if self._is_called_as_traced(operands):
            self._share_types(call, copies)
        else:
            self._run(copies)
        for reader in list(call.users):
            result = results[reader.args[1]]
            reader.replace_all_uses_with(result)
            self.module.graph.erase_node(reader)
        options = [value for value in call.kwargs.values() if isinstance(value, Node)]
        self.module.graph.erase_node(call)
        for option in options:
            if not option.users:
                self.module.graph.erase_node(option)

    def _copy(self, node: Node, copies: dict[Node, Any], notes: dict[str, Any]) -> Node:
        made = self.module.graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            made.target = self._attribute(str(node.target))
        own = {
            key: note
            for key, note in node.meta.get("custom", {}).items()
            if key not in self.first_notes or self.first_notes[key] != note
        }
        if notes or "custom" in made.meta:
            made.meta["custom"] = notes | own
        return made

    def _attribute(self, name: str) -> str:
        """Gives the graph an attribute of the subgraph."""
        if name not in self.attributes:
            number = 0
            while hasattr(self.module, f"_region_{number}"):
                number += 1
            self.attributes[name] = f"_region_{number}"
            setattr(self.module, f"_region_{number}", _attribute_of(self.body, name))
        return self.attributes[name]

    # Types of the copies

    def _is_called_as_traced(self, operands: list[Any]) -> bool:
        """Whether the operands have the sizes, strides and offsets with which the
        subgraph was traced, and its nodes are plain tensors and numbers."""
        traced = [node.meta.get("val") for node in self.inputs]
        given = [o.meta.get("val") if isinstance(o, Node) else o for o in operands]
        return all(map(_look_the_same, traced, given)) and all(
            map(_is_plain, (node.meta.get("val") for node in self.nodes))
        )

    def _share_types(self, call: Node, copies: dict[Node, Any]) -> None:
        """Gives the copies the types of the subgraph's nodes. Tensors that share memory
        in the subgraph share memory of their own; those that share an operand's memory
        share that of the operand."""
        memory = Memory()
        for result, value in zip(self.results, call.meta["val"]):
            if isinstance(result, Node) and not self._is_shared(value):
                memory.put(result.meta["val"], value)
        for node in self.inputs:
            operand = copies[node]
            if isinstance(operand, Node):
                memory.put(node.meta["val"], operand.meta["val"])
        for node in self.nodes:
            if "val" in node.meta:
                copies[node].meta["val"] = memory.moved(node.meta["val"])

    def _is_shared(self, value: Any) -> bool:
        return is_dense(value) and storage(value) in self.shared

    def _run(self, copies: dict[Node, Any]) -> None:
        """Computes the types of the copies from those of the operands."""
        mode = detect_fake_mode([node.meta.get("val") for node in copies])
        assert mode is not None
        for node in self.nodes:
            made = copies[node]
            if made.op != "call_function" or "val" not in node.meta:
                continue
            args, kwargs = torch.fx.node.map_arg((made.args, made.kwargs), _value)
            with mode, torch.no_grad():
                made.meta["val"] = made.target(*args, **kwargs)


def _attribute_of(module: GraphModule, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _notes(call: Node) -> dict[str, Any]:
    """The annotations of a call, which its operators inherit."""
    custom = call.meta.get("custom", {})
    return {key: note for key, note in custom.items() if key not in _OF_CALLS}


def _value(node: Node) -> Any:
    return node.meta.get("val")


def _look_the_same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        layout = (*left.shape, *left.stride(), left.storage_offset())
        other = (*right.shape, *right.stride(), right.storage_offset())
        return (
            left.dtype == right.dtype
            and len(layout) == len(other)
            and all(map(same, layout, other))
        )
    if isinstance(left, int | torch.SymInt) and isinstance(right, int | torch.SymInt):
        return same(left, right)
    return left is right


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if not isinstance(value, torch.Tensor):
        return True
    return (
        type(value) is FakeTensor
        and is_dense(value)
        and not value.is_conj()
        and not value.is_neg()
    )
