"""Copies the nodes of an operator's parts, where a trace takes it apart again.

A model has an operator once in each layer. AOTAutograd's trace runs the parts of each, and
every part goes through functionalization, the trace and its shape function. If the arguments
have equal forms, the nodes are the same: the trace gets copies of those of the first layer."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._dispatch.python import no_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import Graph, Node, Proxy
from torch.fx.experimental import proxy_tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = ["Tracing", "current"]

_EMPTY_STRIDED = torch.ops.aten.empty_strided.default
_AS_STRIDED = torch.ops.aten.as_strided.default
_KEPT_META = ("original_aten", "torch_fn", "tensor_meta")


class _Other(Exception):
    """The nodes are not such that copies of them mean the same for other arguments."""


class _Part(NamedTuple):
    """The nodes of an operator's parts, in order. `inputs` are the nodes of its tensors,
    `results` those of its results, and `spec` is how these are nested."""

    nodes: list[Node]
    inputs: list[Node]
    results: list[Node | None]
    spec: Any


# Of each trace: the parts by operator and forms of arguments. None: they can't be copied.
_known: MutableMapping[Any, dict[Any, _Part | None]] = weakref.WeakKeyDictionary()


class Tracing:
    """The trace that runs now."""

    def __init__(self, fake: FakeTensorMode) -> None:
        mode = proxy_tensor.get_proxy_mode()
        assert mode is not None
        self._tracer: Any = mode.tracer
        self._fake = fake
        self._functional: FunctionalTensorMode | None = torch._C._get_dispatch_mode(
            torch._C._TorchDispatchModeKey.FUNCTIONAL
        )

    def run(
        self, function: Callable[..., Any], key: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """The results of the function, whose nodes the graph has then. `key` has the
        operator and the forms of its arguments."""
        given = [leaf for leaf in tree_leaves((args, kwargs)) if _is_tensor(leaf)]
        try:
            inner = [self._inner(tensor) for tensor in given]
            inputs = [self._node_of(tensor) for tensor in inner]
        except _Other:
            return function(*args, **kwargs)
        # Two arguments may be one tensor, or views of one.
        memory = [_memory(tensor) for tensor in inner]
        same = tuple((inputs.index(n), memory.index(m)) for n, m in zip(inputs, memory))
        known = _known.setdefault(self._tracer, {})
        if (key, same) not in known:
            before = self._last()
            result = function(*args, **kwargs)
            try:
                known[key, same] = self._part(before, inputs, inner, result)
            except _Other:
                known[key, same] = None
            return result
        part = known[key, same]
        if part is None:
            return function(*args, **kwargs)
        return self._copy(part, inputs, inner)

    # Reading what the trace has

    def _inner(self, tensor: Any) -> FakeTensor:
        """The tensor that the trace knows. Writes to what it is a view of come first."""
        if isinstance(tensor, FunctionalTensor):
            assert self._functional is not None
            self._functional._sync_view_replay_annotations((tensor,), {})
            torch._sync(tensor)
            tensor = torch._from_functional_tensor(tensor.elem)
        if type(tensor) is not FakeTensor:
            raise _Other
        return tensor

    def _node_of(self, tensor: FakeTensor) -> Node:
        slot = proxy_tensor.get_proxy_slot(tensor, self._tracer, None)
        if slot is None or slot.constant is not None:
            raise _Other
        return slot.proxy.node

    def _last(self) -> Node:
        graph: Graph = self._tracer.graph
        return graph._root._prev

    def _part(
        self, before: Node, inputs: list[Node], inner: Sequence[FakeTensor], result: Any
    ) -> _Part:
        nodes = list(_nodes_after(before))
        leaves, spec = tree_flatten(result)
        results = [None if leaf is None else self._result(leaf) for leaf in leaves]
        made = {node for node in nodes if _is_copied(node)}
        if any(node is not None and node not in made for node in results):
            raise _Other
        for node in made:
            _check_node(node, made, inputs)
        if len({str(node.meta.get("custom")) for node in made}) > 1:
            raise _Other
        ordered = [node for node in nodes if node in made]
        _check_memory(ordered, inner, [node for node in results if node is not None])
        return _Part(ordered, inputs, results, spec)

    def _result(self, value: Any) -> Node:
        if not _is_tensor(value):
            raise _Other
        return self._node_of(self._inner(value))

    # Making copies

    def _copy(
        self, part: _Part, inputs: Sequence[Node], inner: Sequence[FakeTensor]
    ) -> Any:
        copies = dict(zip(part.inputs, inputs))
        memory: dict[int, tuple[Tensor, Any]] = {}
        for node, tensor in zip(part.inputs, inner):
            like = node.meta["val"]
            shift = tensor.storage_offset() - like.storage_offset()
            memory.setdefault(_memory(like), (tensor, shift))
        for node in part.nodes:
            copies[node] = self._copy_node(node, copies, memory)
        leaves = [
            None if node is None else self._tracked(copies[node])
            for node in part.results
        ]
        return tree_unflatten(leaves, part.spec)

    def _copy_node(
        self, node: Node, copies: dict[Node, Node], memory: dict[int, Any]
    ) -> Node:
        args, kwargs = torch.fx.map_arg(
            (node.args, node.kwargs), lambda source: copies.get(source, source)
        )
        made: Node = self._tracer.create_node(node.op, node.target, args, kwargs)
        made.meta |= {key: node.meta[key] for key in _KEPT_META if key in node.meta}
        make = functools.partial(self._value, memory=memory)
        made.meta["val"] = tree_map(make, node.meta["val"])
        return made

    def _value(self, like: Any, memory: dict[int, tuple[Tensor, Any]]) -> Any:
        """A tensor of the form of `like`, in the memory that stands for its memory."""
        if not isinstance(like, Tensor):
            return like
        place, form = _memory(like), (like.shape, like.stride())
        base, shift = memory.get(place, (None, 0))
        with no_python_dispatcher(), in_kernel_invocation_manager(self._fake):
            if base is None:
                meta = _EMPTY_STRIDED(*form, dtype=like.dtype, device="meta")
            else:
                meta = _AS_STRIDED(base, *form, like.storage_offset() + shift)
        made = FakeTensor(self._fake, meta, like.device)
        memory.setdefault(place, (made, 0))
        return made

    def _tracked(self, node: Node) -> Tensor:
        """The tensor that the operator returns for a node."""
        value: Tensor = node.meta["val"]
        proxy = Proxy(node, self._tracer)
        proxy_tensor.track_tensor_tree(value, proxy, constant=None, tracer=self._tracer)
        if self._functional is None:
            return value
        return FunctionalTensor(torch._to_functional_tensor(value), self._functional)


def current() -> Tracing | None:
    """The trace that makes a graph now. None: there is none, or it is not one of tensors
    that have forms alone."""
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    if fake is None or proxy_tensor.get_proxy_mode() is None:
        return None
    return Tracing(fake)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _nodes_after(node: Node) -> Iterator[Node]:
    while (node := node._next).op != "root":
        yield node


def _memory(value: Tensor) -> int:
    return value.untyped_storage()._cdata


def _is_copied(node: Node) -> bool:
    """Whether a copy gets this node anew. Sizes, and constants, are those of the first."""
    values = tree_leaves(node.meta.get("val"))
    return node.op != "get_attr" and not (values and not any(map(_is_tensor, values)))


def _check_node(node: Node, made: set[Node], inputs: Sequence[Node]) -> None:
    """_Other: the node has an effect, or reads what is no argument of the operator."""
    target = node.target
    is_item = getattr(target, "__name__", "") == "getitem"
    is_plain = isinstance(target, OpOverload) and not target._schema.is_mutable
    if node.op != "call_function" or not (is_item or is_plain):
        raise _Other
    if "unbacked_bindings" in node.meta or "val" not in node.meta:
        raise _Other
    for source in node.all_input_nodes:
        if source not in made and source not in inputs and _is_copied(source):
            raise _Other


def _check_memory(
    nodes: Sequence[Node], inner: Sequence[FakeTensor], results: Sequence[Node]
) -> None:
    """_Other: a result is memory of an argument or of another result, or a view has
    another dtype than what it is a view of."""
    owned = [_memory(node.meta["val"]) for node in results]
    if not set(owned).isdisjoint(map(_memory, inner)) or len(set(owned)) < len(owned):
        raise _Other
    first: dict[int, Tensor] = {_memory(tensor): tensor for tensor in inner}
    for node in nodes:
        for value in tree_leaves(node.meta["val"]):
            if type(value) is not FakeTensor or value.layout != torch.strided:
                raise _Other
            base = first.setdefault(_memory(value), value)
            if base.dtype != value.dtype or (base is value and _is_inside(value)):
                raise _Other


def _is_inside(value: FakeTensor) -> bool:
    """Whether the tensor does not begin where its memory does."""
    offset = value.storage_offset()
    return not isinstance(offset, int) or offset != 0
