"""Translates marks of an ATen graph (torch.ops.air) to the marks that Anabranch's
compiler reads.

    Before: scope_enter(["_user_stream_label"], ["1"]); %y = mm(%a, %b); scope_exit()
    After:  %y = mm(%a, %b)  annotated {anabranch.stream: "1"}, with the attributes
            under their own names beside it, for dumps"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from anabranch.extension import (
    RECORD,
    WAIT,
    WAIT_EVENT,
    WAIT_TAG,
    Marks,
    add_mark_resolver,
    complete_nodes,
    drop_super_kernel,
    set_marks,
    stream_of,
    user_line,
)

from ..errors import ScopeError, UnsupportedMode, UnsupportedOption, warn_once
from .attributes import PREFIX
from .attributes import STREAM as LABEL
from .attributes import SUPER as SUPER_KEYS
from .npu_streams import resolve_npu_streams
from .operators import WAIT_TENSOR_ELSEWHERE, unify
from .super_options import effective_options, warn_without_effect, without_strictness

__all__ = ["resolve_marks"]

air = torch.ops.air

_HINT = (
    "Please check the custom passes, and whether Dynamo broke the graph inside"
    " of a scope."
)
_TAGGED = {
    air.tagged_event_record.default: RECORD,
    air.tagged_event_wait.default: WAIT_TAG,
    air.record_tagged_stream.default: None,
}

PREFETCH = "npu.npu_prefetch.default"  # the operator only checks its arguments

SUPER_SCOPE, SUPER_OPTIONS = SUPER_KEYS
_STREAM_KEYS = (LABEL, "_user_stream_priority", "_enable_inner_parallel")

Scope = dict[str, str]


def resolve_marks(
    module: torch.fx.GraphModule,
    captures: bool,
    single_stream: bool,
    symbolic: bool = False,
) -> None:
    """Edits the graph in place.

    captures       whether the mode is a capture mode
    single_stream  whether stream scopes are refused
    symbolic       whether calls bind sizes: no scope must be one super kernel then,
                   since an NPU makes none
    """
    graph = module.graph
    unify(graph)
    if captures:
        _refuse_wait_tensor(graph)
    resolve_npu_streams(graph)
    _drop_captured_super_kernels(graph)
    scopes = _resolve_scopes(graph, symbolic)
    if captures:
        _drop_super_kernels(graph)
    if single_stream and not captures:
        _refuse_streams(graph)
    for scope in scopes:
        _warn_of_scope(scope, captures)
    for node in list(graph.nodes):
        if node.target in _TAGGED:
            _resolve_tagged(graph, node, captures)
        elif node.target is air.record.default:
            node.target, node.args, node.kwargs = RECORD, (), {}
        elif node.target is air.wait.default:
            _resolve_wait(graph, node)
        elif str(node.target) == PREFETCH:
            graph.erase_node(node)
    complete_nodes(module)
    graph.lint()
    module.recompile()


def _resolve_exported(module: torch.fx.GraphModule) -> None:
    """Translates the marks of a graph that anabranch.export writes."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    sizes = [size for v in values if isinstance(v, torch.Tensor) for size in v.shape]
    symbolic = any(isinstance(size, torch.SymInt) for size in (*values, *sizes))
    resolve_marks(module, captures=False, single_stream=False, symbolic=symbolic)


add_mark_resolver(_resolve_exported)


# Scopes


def _resolve_scopes(graph: torch.fx.Graph, symbolic: bool) -> list[Scope]:
    """Removes the marks of scopes and annotates the nodes between them. Returns every
    scope."""
    entered: list[Scope] = []
    open_scopes: list[Scope] = []
    for node in list(graph.nodes):
        if node.target is air.scope_enter.default:
            open_scopes.append(_scope_of(node))
            _check_options(node, open_scopes[-1])
            entered.append(open_scopes[-1])
            graph.erase_node(node)
        elif node.target is air.scope_exit.default:
            if not open_scopes:
                raise ScopeError(
                    f"When you call the torch.ops.air.scope_exit operator: {node},"
                    " you must first call the torch.ops.air.scope_enter operator."
                    f" {_HINT}"
                )
            open_scopes.pop()
            graph.erase_node(node)
        elif open_scopes and node.op == "call_function":
            _annotate(node, open_scopes, symbolic)
    if open_scopes:
        raise ScopeError(
            "After you call the torch.ops.air.scope_enter operator, there is no"
            " paired call to the torch.ops.air.scope_exit operator. The parameters"
            f" for these scope_enter operators are:{open_scopes}. {_HINT}"
        )
    return entered


def _scope_of(node: torch.fx.Node) -> Scope:
    keys, values = node.args[:2]
    assert isinstance(keys, list | tuple)
    assert isinstance(values, list | tuple)
    if len(keys) != len(values):
        raise ScopeError(
            f"torch.ops.air.scope_enter needs as many values as keys: {node}"
            f" {user_line(node)}"
        )
    return dict(zip(map(str, keys), map(str, values)))


def _annotate(node: torch.fx.Node, open_scopes: list[Scope], symbolic: bool) -> None:
    attributes: Scope = {}
    for scope in open_scopes:
        attributes |= scope
    if attributes.get(LABEL) == "":  # the default stream
        for key in _STREAM_KEYS:
            attributes.pop(key, None)
    custom: dict[str, Any] = dict(node.meta.get("custom") or {})
    custom |= {f"{PREFIX}{key}": text for key, text in attributes.items()}
    node.meta["custom"] = custom
    options = _effective(attributes) if SUPER_SCOPE in attributes else ""
    if symbolic:
        options = without_strictness(options)
    marks = Marks(
        stream=attributes.get(LABEL),
        cores=_cores(attributes),
        super_kernel=attributes.get(SUPER_SCOPE),
        super_options=options,
    )
    set_marks(node, marks)


def _cores(attributes: Scope) -> int | None:
    text = attributes.get("_op_aicore_num", "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _refuse_streams(graph: torch.fx.Graph) -> None:
    """Refuses stream scopes in a static graph. With symbolic sizes the option has no
    effect."""
    if any(isinstance(node.meta.get("val"), torch.SymInt) for node in graph.nodes):
        return
    for node in graph.nodes:
        if stream_of(node) is not None:
            raise UnsupportedOption(
                "config.ge_config.enable_single_stream and"
                " torchair.scope.npu_stream_switch exclude each other in a graph"
                f" of static shapes\n  {user_line(node)}"
            )


def _warn_of_scope(scope: Scope, captures: bool) -> None:
    none = "has no effect on this host"
    if scope.get("_user_stream_priority", "0") != "0":
        warn_once(f"npu_stream_switch: stream_priority {none}")
    if scope.get("_enable_inner_parallel", "True") != "True":
        warn_once(f"npu_stream_switch: enable_inner_parallel=False {none}")
    if "_op_exec_never_timeout" in scope:
        warn_once(f"op_never_timeout {none}")
    if "_op_aicore_num" in scope and _cores(scope) is None:
        warn_once(f"limit_core_num({scope['_op_aicore_num']}, ...) {none}")
    if "_super_kernel_scope" in scope:
        _warn_of_super_kernel(scope, captures)


# Super kernels


def _drop_super_kernels(graph: torch.fx.Graph) -> None:
    """Removes the compiler's marks of super kernels. The attributes stay for dumps."""
    for node in graph.nodes:
        drop_super_kernel(node)


def _effective(scope: Scope) -> str:
    return effective_options(scope.get(SUPER_OPTIONS, ""))


def _check_options(node: torch.fx.Node, scope: Scope) -> None:
    """UnsupportedOption, with the user's line: an option is wrong."""
    try:
        _effective(scope)
    except UnsupportedOption as error:
        raise UnsupportedOption(f"{error}\n  {user_line(node)}") from None


def _warn_of_super_kernel(scope: Scope, captures: bool) -> None:
    if captures:
        warn_once("super_kernel has no effect on this host in a capture mode")
        return
    _effective(scope)
    warn_without_effect(scope[SUPER_OPTIONS])


def _drop_captured_super_kernels(graph: torch.fx.Graph) -> None:
    """Removes torch.npu.super_kernel_scope_begin and _end, which pair by name, in any
    order."""
    opened: dict[str, torch.fx.Node] = {}
    begin, end = "super_kernel_scope_begin", "super_kernel_scope_end"
    for node in list(graph.nodes):
        if node.target is air.super_kernel_begin.default:
            opened[str(node.args[0])] = node
        elif node.target is air.super_kernel_end.default:
            if opened.pop(str(node.args[0]), None) is None:
                raise ScopeError(
                    f"When you call torch.npu.{end}({node.args[0]!r}), you must first"
                    f" call torch.npu.{begin}. {_HINT}\n  {user_line(node)}"
                )
        else:
            continue
        warn_once(f"torch.npu.{begin} has no effect on this host")
        if node.target is air.super_kernel_end.default:
            graph.erase_node(node)
    for name, node in opened.items():
        raise ScopeError(
            f"After you call torch.npu.{begin}({name!r}), there is no paired call to"
            f" torch.npu.{end}. {_HINT}\n  {user_line(node)}"
        )
    for node in list(graph.nodes):
        if node.target is air.super_kernel_begin.default:
            graph.erase_node(node)


# Waits and events


def _refuse_wait_tensor(graph: torch.fx.Graph) -> None:
    for node in graph.nodes:
        if node.target is WAIT:
            raise UnsupportedMode(f"{WAIT_TENSOR_ELSEWHERE}\n  {user_line(node)}")


def _resolve_tagged(graph: torch.fx.Graph, node: torch.fx.Node, captures: bool) -> None:
    if not captures:
        raise UnsupportedMode(
            f"torch.ops.{node.target} ge_converter is not implemented!"
            f" Tagged events are for the capture modes.\n  {user_line(node)}"
        )
    meaning = _TAGGED[node.target]
    if meaning is not None:
        _insert(graph, node, meaning, node.args)
    graph.erase_node(node)


def _resolve_wait(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Replaces one wait for several values by one wait for each. Inputs need no wait."""
    waited = node.args[0]
    assert isinstance(waited, list | tuple)
    for item in dict.fromkeys(waited):
        assert isinstance(item, torch.fx.Node)
        if item.target in (air.record.default, RECORD):
            _insert(graph, node, WAIT_EVENT, (item,))
        elif item.op == "call_function":
            _insert(graph, node, WAIT, (item, item, False))
    graph.erase_node(node)


def _insert(
    graph: torch.fx.Graph, before: torch.fx.Node, target: Any, args: tuple[Any, ...]
) -> None:
    with graph.inserting_before(before):
        made = graph.call_function(target, args)
    made.meta = {key: value for key, value in before.meta.items() if key != "val"}
