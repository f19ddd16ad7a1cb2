"""Deadlock checks find collectives that may wait for each other: in traces and graphs."""

from __future__ import annotations

import json
import re

import pytest
import torch

import torchair
from pictures import compiled
from ranks import run_ranks
from torchair.tools.gegraph_check.align_trace import align_trace_json
from torchair.tools.gegraph_check.deadlock_check import deadlock_check
from torchair.tools.gegraph_check.filter_operators import filter_comm_ops

ARGS = {"Task Type": "KERNEL_AIVEC", "Schem Mode": 1, "Block Num": 28}


def task(time, stream, name, **args):
    args = {"Stream Id": stream, "TaskId": time, **args}
    return {
        "name": name,
        "ph": "X",
        "pid": 0,
        "tid": stream,
        "ts": time,
        "dur": 1,
        "args": args,
    }


def collective(time, stream, name="aiv_all_reduce", **more):
    return task(time, stream, name, **{**ARGS, **more})


def order(time, stream, kind, event):
    key = "Event Id" if kind.startswith("EVENT") else "Address"
    return task(time, stream, kind, **{"Task Type": kind, key: event})


def checked(folder, events, capsys, total=48):
    """The check's output, and the names in the trace that it writes."""
    path, out = folder / "in.json", folder / "out.json"
    path.write_text(json.dumps(events))
    deadlock_check(str(path), str(out), total)
    found = json.loads(out.read_text())["traceEvents"]
    return capsys.readouterr().out, [event["name"] for event in found]


def test_two_that_want_too_much(tmp_path, capsys) -> None:
    events = [collective(1, 0), collective(2, 1, "dispatch"), task(3, 1, "add")]
    text, names = checked(tmp_path, events, capsys)
    assert text == (
        "[RESULT] Deadlock risk detected! 1 conflicting pair(s):\n"
        "  CONFLICT: [stream0 TaskId=1] aiv_all_reduce (28 AIVEC)  <->"
        "  [stream1 TaskId=2] dispatch (28 AIVEC)  sum=56 > 48\n"
    )
    assert names == ["dead_lock_aiv_all_reduce", "dead_lock_dispatch", "add"]
    text, _ = checked(tmp_path, events, capsys, total=56)
    assert text == "[RESULT] No deadlock risks detected.\n"


@pytest.mark.checklist("T138")
@pytest.mark.parametrize(
    "events, pairs",
    [
        ([collective(1, 0), collective(2, 1)], 1),
        ([collective(1, 0), collective(2, 0)], 0),
        ([collective(1, 0), collective(2, 1), collective(3, 2)], 3),
        # One collective after the other: by an event, by a value in memory, through a third.
        *(
            (
                [
                    collective(1, 0),
                    order(2, 0, record, 7),
                    order(3, 1, wait, 7),
                    collective(4, 1),
                ],
                0,
            )
            for record, wait in (
                ("EVENT_RECORD", "EVENT_WAIT"),
                ("MEM_WRITE_VALUE", "MEM_WAIT_VALUE"),
            )
        ),
        (
            [
                collective(1, 0),
                order(2, 0, "EVENT_RECORD", 1),
                order(3, 2, "EVENT_WAIT", 1),
                order(4, 2, "EVENT_RECORD", 2),
                order(5, 1, "EVENT_WAIT", 2),
                collective(6, 1),
            ],
            0,
        ),
        # The wait is for something else, or comes after the collective.
        (
            [
                collective(1, 0),
                order(2, 0, "EVENT_RECORD", 7),
                order(3, 1, "EVENT_WAIT", 8),
                collective(4, 1),
            ],
            1,
        ),
        (
            [
                collective(1, 0),
                order(2, 0, "EVENT_RECORD", 7),
                collective(3, 1),
                order(4, 1, "EVENT_WAIT", 7),
            ],
            1,
        ),
        # A stream that another stream activates counts as a part of that one.
        (
            [
                collective(1, 0),
                task(2, 0, "go", **{"Task Type": "STREAM_ACTIVE", "Active Stream": 1}),
                collective(3, 1),
            ],
            0,
        ),
        # Only collectives count, by name or by mark, that hold their cores and need many.
        ([collective(1, 0), collective(2, 1, "add")], 0),
        ([collective(1, 0), collective(2, 1, "add", Communication=True)], 1),
        ([collective(1, 0), collective(2, 1, **{"Schem Mode": 0})], 0),
        ([collective(1, 0), collective(2, 1, **{"Block Num": 20})], 0),
        ([collective(1, 0), collective(2, 1, **{"Task Type": "KERNEL_MIX_AIC"})], 0),
        (
            [
                collective(1, 0),
                collective(
                    2,
                    1,
                    **{"Task Type": "KERNEL_MIX_AIC", "Mix Ratio": 2, "Block Num": 14},
                ),
            ],
            1,
        ),
        # The check ends, although the waits form a circle.
        (
            [
                order(1, 0, "EVENT_WAIT", 1),
                order(2, 0, "EVENT_RECORD", 2),
                order(1, 1, "EVENT_WAIT", 2),
                order(2, 1, "EVENT_RECORD", 1),
            ],
            0,
        ),
    ],
)
def test_what_is_before_what(tmp_path, capsys, events, pairs) -> None:
    text, _ = checked(tmp_path, events, capsys)
    assert text.count("CONFLICT") == pairs


def test_filtered_and_aligned_traces(tmp_path) -> None:
    path, out = str(tmp_path / "in.json"), str(tmp_path / "out.json")
    events = [task(10, 0, "add"), task(11.5, 0, "add"), collective(13, 0)]
    (tmp_path / "in.json").write_text(json.dumps({"traceEvents": events}))
    align_trace_json(path, out)
    found = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [event["ts"] for event in found] == [0, 1.5, 3]
    align_trace_json(path, out, merge_gap=1.0)
    found = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [(e["ts"], e["dur"]) for e in found] == [(0, 2.5), (3, 1)]
    filter_comm_ops(path, out)
    found = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [event["name"] for event in found] == ["aiv_all_reduce"]
    (tmp_path / "in.json").write_text("{}")
    with pytest.raises(ValueError, match="is no trace"):
        align_trace_json(path, out)


@pytest.mark.checklist("T138")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_a_graph_without_collectives(
    config, mode, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    config.mode = mode
    config.debug.deadlock_check = True
    x = torch.ones(3)
    assert torch.equal(compiled(lambda x: x * 2 + 1, config)(x), x * 2 + 1)
    assert "[RESULT] No deadlock risks detected." in capsys.readouterr().out
    start = r"debug_output_graph_\d+_timestamp\d+_pid_\d+"
    names = sorted(path.name for path in tmp_path.iterdir())
    ends = ("", "_filtered", "_filtered_deadlock_check")
    assert len(names) == 3
    for end in ends:
        assert any(re.fullmatch(f"{start}{end}\\.json", name) for name in names)
    torch._dynamo.reset()
    compiled(lambda x: x * 3, config, dynamic=True)(x)
    assert len(list(tmp_path.iterdir())) == 3


RANKS = """
def function(x, y):
    with torchair.scope.limit_core_num(1, 30):
        with torchair.scope.npu_stream_switch("1"):
            dist.all_reduce(x)
        with torchair.scope.npu_stream_switch("2"):
            dist.all_reduce(y)
    return x + y


config = torchair.CompilerConfig()
config.debug.deadlock_check = True
backend = torchair.get_npu_backend(compiler_config=config)
runs = [torch.compile(function, backend=backend, fullgraph=True, dynamic=False)]
options = {"deadlock_check": True}
runs.append(torch.compile(function, backend="npugraph_ex", options=options, dynamic=False))
for run in runs:
    torch._dynamo.reset()
    assert torch.equal(run(torch.ones(4), torch.ones(4)), torch.full((4,), 4.0))
"""


def test_collectives_of_a_graph(tmp_path) -> None:
    for text in run_ranks(tmp_path, RANKS, 2):
        assert text.count("Deadlock risk detected! 1 conflicting pair(s)") == 2
        assert text.count("(30 AIVEC)  sum=60 > 48") == 2


def test_public_names_are_importable() -> None:
    assert torchair.tools.gegraph_check.deadlock_check.deadlock_check is deadlock_check
