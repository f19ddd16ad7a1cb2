"""Compiles in threads: what no call has asked for yet, while the process rests; and
beside calls, what they run in PyTorch until then (eager_tier.py).

The tracer is Python. So the thread keeps the usual priority: at a low one it could hold
the interpreter's lock while it waits for a CPU, and calls would wait with it. At the
usual one it takes a core and that lock from calls, and a job cannot be stopped. So each
job waits until calls pause (`Rest`)."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from .. import dynamo_lock
from .tier_costs import Rest
from .tiers import worker


@dataclass(frozen=True)
class Modes:
    """The calling thread's state that Dynamo's guards read."""

    inference: bool = field(default_factory=torch.is_inference_mode_enabled)
    grad: bool = field(default_factory=torch.is_grad_enabled)
    autocast: bool = field(default_factory=lambda: torch.is_autocast_enabled("cpu"))
    dtype: torch.dtype = field(default_factory=lambda: torch.get_autocast_dtype("cpu"))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with (
            torch.inference_mode(self.inference),
            torch.set_grad_enabled(self.grad),
            torch.autocast("cpu", self.dtype, self.autocast),
        ):
            yield


# How often the thread looks whether the process rests, in seconds. A server that never
# rests pays for each look, which takes the interpreter's lock.
PAUSE = 0.25
# A call that waits for a job gives up after so many seconds.
MOST_SECONDS = 60.0


@dataclass(eq=False)
class Job:
    """One compilation."""

    compile: Callable[[], object]
    modes: Modes = field(default_factory=Modes)
    # Settings of Dynamo are variables of the caller's context.
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    ended: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        # A caller that waits for the job cannot hold Dynamo's lock, which the job has.
        with self.modes.entered(), dynamo_lock.held():
            with self.lock:
                self.begun = True
            try:
                if not self.ended.is_set():
                    self.context.run(self.compile)
            finally:
                self.ended.set()

    def drop_or_wait(self) -> None:
        """Ends the job if it has not begun; else waits for its end."""
        with self.lock:
            if not self.begun:
                self.ended.set()
        self.ended.wait(MOST_SECONDS)


class Ahead:
    """A thread, which is there while jobs are, and its queue."""

    def __init__(self, name: str, waits_for_rest: bool) -> None:
        self.name = name
        self.waits_for_rest = waits_for_rest
        self.changed = threading.Condition()
        self.jobs: deque[Job] = deque()
        self.thread: threading.Thread | None = None

    def add(self, job: Job) -> None:
        with self.changed:
            self.jobs.append(job)
            if self.thread is None:
                # The end of a process waits for the job that runs: a thread cannot be
                # stopped inside of PyTorch.
                self.thread = threading.Thread(
                    target=self._run, name=self.name, daemon=False
                )
                self.thread.start()

    def finish(self, timeout: float) -> bool:
        """Waits until nothing is left to compile."""
        with self.changed:
            return self.changed.wait_for(lambda: self.thread is None, timeout)

    def _run(self) -> None:
        while job := self._next():
            if self.waits_for_rest and not self._awaits_rest(job):
                continue
            begin = time.monotonic()
            job.run()
            worker().budget.spent += time.monotonic() - begin

    def _awaits_rest(self, job: Job) -> bool:
        """False: the job has been dropped, or the process ends."""
        rest = Rest()
        while threading.main_thread().is_alive():
            if job.ended.wait(PAUSE):
                return False
            rest.note()
            if rest.is_present():
                return True
        return False

    def _next(self) -> Job | None:
        with self.changed:
            if self.jobs:
                return self.jobs.popleft()
            self.thread = None
            self.changed.notify_all()
            return None


def _threads() -> tuple[Ahead, Ahead]:
    """The thread for jobs that wait until the process rests, and that for the others."""
    return Ahead("anabranch-ahead", True), Ahead("anabranch-beside", False)


_ahead, _beside = _threads()


def add(job: Job) -> None:
    _ahead.add(job)


def add_at_once(job: Job) -> None:
    """Has the job done beside calls."""
    _beside.add(job)


def finish(timeout: float) -> bool:
    """Waits until nothing is left to compile."""
    return _beside.finish(timeout) and _ahead.finish(timeout)


_forking = contextlib.ExitStack()


def _before_fork() -> None:
    """A child of a process whose thread traces would wait for Dynamo's lock forever."""
    if _ahead.thread is not None or _beside.thread is not None:
        _forking.enter_context(dynamo_lock.held())


def _in_child() -> None:
    """A forked child has none of its parent's threads."""
    global _ahead, _beside
    _forking.close()
    _ahead, _beside = _threads()


os.register_at_fork(
    before=_before_fork, after_in_parent=_forking.close, after_in_child=_in_child
)
