"""torch_npu.profiler: PyTorch's profiler for operators, Anabranch's trace for graphs.

Each window of a schedule writes a folder `<worker>_<time>_ascend_pt/`. Its
ASCEND_PROFILER_OUTPUT/trace_view.json has the commands of compiled graphs, for
Perfetto; torch_trace.json beside it has PyTorch's operators."""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch.profiler
from torch.profiler import ProfilerAction, schedule

import anabranch

from ..errors import warn_once

__all__ = [
    "AiCMetrics",
    "ExportType",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class ProfilerActivity(enum.Enum):
    CPU = 0
    NPU = 1


ProfilerLevel = enum.Enum("ProfilerLevel", ["Level_none", "Level0", "Level1", "Level2"])
ExportType = enum.Enum("ExportType", ["Text", "Db"])
AiCMetrics = enum.Enum(
    "AiCMetrics",
    [
        "PipeUtilization",
        "ArithmeticUtilization",
        "Memory",
        "MemoryL0",
        "ResourceConflictRatio",
        "MemoryUB",
        "L2Cache",
        "MemoryAccess",
        "AiCoreNone",
    ],
)


class _ExperimentalConfig:
    """Options of an NPU's counters. They change nothing on this host."""

    def __init__(self, **options: Any) -> None:
        self.options = options


def supported_activities() -> set[ProfilerActivity]:
    return set(ProfilerActivity)


class profile:
    """Records the steps that `schedule` selects; without a schedule, all steps.

    on_trace_ready  called with this object after each window
    activities, record_shapes, profile_memory, with_stack, with_modules, with_flops  as
                    of torch.profiler.profile
    experimental_config  has no effect on this host

    RuntimeError: another trace of Anabranch runs.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        with_flops: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        **_: Any,
    ) -> None:
        if experimental_config is not None:
            warn_once(
                "torch_npu.profiler: experimental_config has no effect on this host"
            )
        self._ready = on_trace_ready
        self._open: contextlib.AbstractContextManager[Any] | None = None
        self.trace: Any = None
        self._runs = False
        self._inner = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=schedule,
            on_trace_ready=self._finish,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            with_flops=with_flops,
        )

    def start(self) -> None:
        self._runs = True
        self._inner.start()
        self._follow()

    def step(self) -> None:
        """Begins the next step of the schedule. Before `start` and after `stop` it does
        nothing, since PyTorch ends the process when it exports this step."""
        if not self._runs:
            warn_once(
                "torch_npu.profiler: step() outside of start and stop does nothing"
            )
            return
        self._inner.step()
        self._follow()

    def stop(self) -> None:
        """Ends the last window. Does nothing before `start`."""
        if not self._runs:
            return
        self._runs = False
        self._close()
        self._inner.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the commands of the compiled graphs of the last window. RuntimeError:
        no window has ended."""
        self._close()
        if self.trace is None:
            raise RuntimeError("torch_npu.profiler: nothing has been recorded")
        self.trace.save(path)

    def key_averages(self, *arguments: Any, **options: Any) -> Any:
        """PyTorch's averages of its operators."""
        return self._inner.key_averages(*arguments, **options)

    def events(self) -> Any:
        """PyTorch's events of its operators."""
        return self._inner.events()

    def add_metadata(self, key: str, value: str) -> None:
        self._inner.add_metadata(key, value)

    def _follow(self) -> None:
        records = self._inner.current_action in _RECORDS
        if records and self._open is None:
            self._open = anabranch.profile()
            self.trace = self._open.__enter__()
        elif not records:
            self._close()

    def _close(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            opened.__exit__(None, None, None)

    def _finish(self, inner: torch.profiler.profile) -> None:
        """Called when a window of PyTorch's profiler has ended."""
        self._close()
        if self._ready is not None:
            self._ready(self)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, *_: Any, **__: Any
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each window to a folder of its own under
    `dir_name`."""

    def handler(finished: profile) -> None:
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        stamp = f"{time.strftime('%Y%m%d%H%M%S')}{time.time_ns() // 1000 % 10**6:06d}"
        folder = os.path.join(
            dir_name, f"{worker}_{stamp}_ascend_pt", "ASCEND_PROFILER_OUTPUT"
        )
        os.makedirs(folder, exist_ok=True)
        finished.export_chrome_trace(os.path.join(folder, "trace_view.json"))
        finished._inner.export_chrome_trace(os.path.join(folder, "torch_trace.json"))

    return handler
