"""debug.fx_summary: writes a table of the operators of one graph as a csv file."""

from __future__ import annotations

import csv
import datetime
import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from anabranch.extension import lowered_operators

from ..errors import warn_once
from ..log import logger
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .process import rank

__all__ = ["summarise"]

HEADER = ("目标函数", "函数类型", "支持状态", "调用次数", "输入统计", "输出统计")
_SUPPORTED, _FALLS_BACK = "已支持", "未实现"


def summarise(module: torch.fx.GraphModule, config: CompilerConfig) -> bool:
    """Writes the file. Returns whether the graph is not to be compiled."""
    if config.mode.value != TUNE:
        warn_once(
            "The fx_summary csv files will not be generated in"
            f" {config.mode.value} mode."
        )
        return False
    path = _write(module, lowered_operators())
    logger.info("the operators of the graph are counted in %s", path)
    if not raw(config, "debug.fx_summary.skip_compile"):
        return False
    warn_once(
        "When summarizing FX Graph, npu compilation will be skipped, and FALLBACK to"
        " EAGER execution"
    )
    return True


def _write(module: torch.fx.GraphModule, lowered: frozenset[str]) -> str:
    """Writes the table to the current folder and returns the file's name. Operators
    that are not in `lowered` count as run by PyTorch."""
    inputs: dict[str, Counter[str]] = defaultdict(Counter)
    outputs: dict[str, Counter[str]] = defaultdict(Counter)
    kinds: dict[str, tuple[str, str]] = {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        name = str(node.target) if isinstance(node.target, OpOverload) else _name(node)
        kinds[name] = _kind(node), _state(node, lowered)
        words = [_text(a) for a in node.args]
        words += [f"{k}={_text(v)}" for k, v in node.kwargs.items()]
        inputs[name][f"({', '.join(words)})"] += 1
        outputs[name][_text(node)] += 1
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")
    path = f"summary_rank_{rank()}_pid_{os.getpid()}_ts_{now}.csv"
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        for name, (kind, state) in sorted(kinds.items()):
            calls = sum(inputs[name].values())
            texts = _counts(inputs[name]), _counts(outputs[name])
            rows.writerow((name, kind, state, calls, *texts))
    return path


def _name(node: torch.fx.Node) -> str:
    return getattr(node.target, "__name__", str(node.target))


def _kind(node: torch.fx.Node) -> str:
    target: Any = node.target
    if not isinstance(target, OpOverload):
        return "builtin"
    return target.namespace


def _state(node: torch.fx.Node, lowered: frozenset[str]) -> str:
    target: Any = node.target
    if not isinstance(target, OpOverload):
        return _SUPPORTED
    return _SUPPORTED if str(target) in lowered else _FALLS_BACK


def _counts(counter: Mapping[str, int]) -> str:
    rows = sorted(counter.items(), key=lambda row: -row[1])
    return "\n".join(f"{count}次：{text}" for text, count in rows)


def _text(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val")
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{kind}({', '.join(map(str, value.shape))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)
