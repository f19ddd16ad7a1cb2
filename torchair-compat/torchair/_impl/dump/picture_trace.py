"""Makes a trace of a picture, for the check of deadlocks: a task for each operator in
the program's order, and an event for each edge between streams."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from .deadlock import AIVEC_TOTAL, deadlock_check, filter_comm_ops, write_trace
from .picture import Graph, Node

__all__ = ["check_deadlocks"]

_CORES = "_op_vectorcore_num"
_COLLECTIVES = ("_c10d_functional", "air_c10d", "anabranch_c10d")
_NO_TASKS = ("Data", "RefData", "Const", "NetOutput")


def check_deadlocks(graph: Graph, number: int) -> None:
    """Writes three traces to the current folder and prints the conflicts. A collective
    takes as many vector cores as its limit_core_num() says, else one."""
    start = (
        f"debug_output_graph_{number}_timestamp{time.strftime('%Y%m%d%H%M%S')}"
        f"_pid_{os.getpid()}"
    )
    write_trace(f"{start}.json", _events(graph))
    filter_comm_ops(f"{start}.json", f"{start}_filtered.json")
    deadlock_check(
        f"{start}_filtered.json",
        f"{start}_filtered_deadlock_check.json",
        AIVEC_TOTAL,
    )


def _events(graph: Graph) -> Iterator[dict[str, Any]]:
    streams: dict[str | None, int] = {None: 0}
    by_name = {node.name: node for node in graph.nodes}
    moment = 0

    def event(node: Node, name: str, **more: Any) -> dict[str, Any]:
        nonlocal moment
        moment += 1
        stream = streams.setdefault(node.stream, len(streams))
        args = {"Stream Id": stream, "TaskId": moment, **more}
        return {
            "name": name,
            "ph": "X",
            "pid": 0,
            "tid": f"stream{stream}",
            "ts": moment,
            "dur": 1,
            "args": args,
        }

    for node in graph.nodes:
        if node.type in _NO_TASKS:
            continue
        names = {text.rpartition(":")[0] for text in node.inputs}
        for producer in sorted(names):
            before = by_name.get(producer)
            if before is None or before.type in _NO_TASKS:
                continue
            if before.stream != node.stream:
                waited = {"Event Id": producer}
                yield event(node, "wait", **{"Task Type": "EVENT_WAIT"}, **waited)
        yield event(node, node.name, **_kernel(node))
        recorded = {"Task Type": "EVENT_RECORD", "Event Id": node.name}
        yield event(node, "record", **recorded)


def _kernel(node: Node) -> dict[str, Any]:
    target = node.source and node.source.target
    waits = "wait_tensor" in str(target)
    if waits or getattr(target, "namespace", "") not in _COLLECTIVES:
        return {"Task Type": "KERNEL_AICORE"}
    cores = node.attributes.get(_CORES, b"1")
    blocks = int(cores) if bytes(cores).isdigit() else 1
    return {
        "Task Type": "KERNEL_AIVEC",
        "Block Num": blocks,
        "Schem Mode": 1,
        "Communication": True,
    }
