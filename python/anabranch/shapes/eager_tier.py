"""Lets PyTorch run the calls that have no program yet, while a thread compiles it.

Dynamo compiles inside of the call that finds no program for its sizes. Here such a call
runs as PyTorch runs it without a compiler, and a thread compiles for its arguments. The
next call that Dynamo has no program for takes what the thread has made, if the guards
pass for this call. Calls that have a program never come here.

The thread traces beside calls, so three things differ from a trace inside of a call:

- What a trace has read may change before its guards are built. It is compared, and the
  program is dropped if it did (guards/seen.py).
- Dynamo restores settings of the process at the end of a trace. Calls may have changed
  them since, so the thread leaves them (`_leaving_settings`).
- Dynamo's lock is held meanwhile. A call that needs a program does not wait for it.

docs/design/shapes.md, "The eager tier"."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._dynamo import convert_frame, trace_rules
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

from .. import dynamo_lock
from ..config import Config
from ..guards.seen import Seen, noting
from ..marks.gear_sizes import gears_of
from ..report import say
from . import ahead

# What Dynamo hands to its compilation of a frame, by the names of its parameters.
Frame = dict[str, Any]
Compile = Callable[[Frame], ConvertFrameReturn]

# For so many seconds the thread keeps the interpreter's lock while a call waits for it.
TURN = 1e-4
# After so many traces whose frame changed meanwhile, calls compile for themselves.
MOST_CHANGES = 2


class _Changed(Exception):
    """What a trace has read is another by now."""


class _Thread(threading.local):
    waiting: Waiting | None = None  # for which Dynamo compiles now


_thread = _Thread()


def listen(
    settings: Callable[[Any], Config | None], is_followed: Callable[[], bool]
) -> None:
    """Lets calls begin here for which Dynamo has no program. `settings` are those that a
    backend was given. A compilation that `is_followed` belongs to its call."""
    convert = convert_frame.CatchErrorsWrapper.__call__

    @functools.wraps(convert)
    def begin(callback: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        waiting = _waiting(callback, settings)
        waits = dynamo_lock.is_held() or is_followed() or not _calls_may_go_on()
        if waiting is None or waits:
            return convert(callback, frame, *args, **kwargs)
        lock = convert_frame.compile_lock
        if waiting.has_job(frame.f_code) or not lock.acquire(blocking=False):
            return in_pytorch()
        _thread.waiting = waiting
        try:
            return convert(callback, frame, *args, **kwargs)
        finally:
            _thread.waiting = None
            lock.release()

    convert_frame.CatchErrorsWrapper.__call__ = begin


def compile(frame: Frame, trace: Compile) -> ConvertFrameReturn:
    """What runs a frame that has no program; `trace` compiles it."""
    waiting, _thread.waiting = _thread.waiting, None
    return trace(frame) if waiting is None else waiting.compile(frame, trace)


def _waiting(callback: Any, settings: Callable[[Any], Config | None]) -> Waiting | None:
    """What waits of the function that calls Dynamo by this callback; None: its calls
    wait for their programs."""
    if not hasattr(callback, _WAITING):
        config = settings(callback)
        waiting = None
        if config is not None and config.eager_first:
            waiting = Waiting(config.explain)
        setattr(callback, _WAITING, waiting)
    return getattr(callback, _WAITING)


_WAITING = "anabranch_waiting"


class Waiting:
    """The code of one compiled function that calls found without a program."""

    def __init__(self, explain: bool) -> None:
        self._explain = explain
        self._jobs: dict[types.CodeType, ahead.Job] = {}
        self._made: dict[types.CodeType, list[ConvertFrameReturn]] = {}
        self._changes: Counter[types.CodeType] = Counter()

    def has_job(self, code: types.CodeType) -> bool:
        return code in self._jobs

    def compile(self, frame: Frame, compile: Compile) -> ConvertFrameReturn:
        """What the thread has compiled for this frame, or the request to run it in
        PyTorch. Compiles where the thread cannot."""
        code = frame["code"]
        if (made := self._take(code, frame["locals"])) is not None:
            return made
        if self._changes[code] >= MOST_CHANGES or not _may_be_later(frame):
            return compile(frame)
        self._jobs[code] = job = ahead.Job(self._job(frame, compile))
        ahead.add_at_once(job)
        return in_pytorch()

    def _take(
        self, code: types.CodeType, locals_: Mapping[str, Any]
    ) -> ConvertFrameReturn | None:
        made = self._made.get(code, [])
        made[:] = filter(_is_known, made)  # torch._dynamo.reset() forgets them
        for result in made:
            guarded = result.guarded_code
            if guarded is None or guarded.guard_manager.check(locals_):
                made.remove(result)
                return result
        return None

    def _job(self, frame: Frame, compile: Compile) -> Callable[[], None]:
        code = frame["code"]
        state = convert_frame.initial_global_state
        later = _kept(frame)

        def run() -> None:
            try:
                with _initial_state(state), _leaving_settings(), _short_turns():
                    self._made.setdefault(code, []).append(_traced(later, compile))
            except _Changed:
                self._changes[code] += 1
                self._say(code, "something that the trace has read has changed")
            except Exception as error:  # noqa: BLE001 - the next call meets it, too
                self._changes[code] = MOST_CHANGES
                self._say(code, str(error))
            finally:
                del self._jobs[code]
                later.clear()

        return run

    def _say(self, code: types.CodeType, reason: str) -> None:
        if self._explain:
            say(f"{code.co_name}: no program was compiled beside calls: {reason}")


def _traced(frame: Frame, compile: Compile) -> ConvertFrameReturn:
    seen = Seen(frame["locals"], frame["globals"])
    with noting(seen):
        result = compile(frame)
    if result.guarded_code is not None and not seen.is_still_there():
        raise _Changed
    return result


def _is_known(result: ConvertFrameReturn) -> bool:
    guarded = result.guarded_code
    return guarded is None or guarded.code in convert_frame.output_codes


def _kept(frame: Frame) -> Frame:
    """The frame without what ends with its call."""
    ends: Frame = {
        "locals": dict(frame["locals"]),
        "frame": None,
        "cache_entry": None,
        "cache_entries": [],
        "cache_entries_for_reasons": [],
        "convert_frame_box": None,
    }
    return frame | {name: value for name, value in ends.items() if name in frame}


def _may_be_later(frame: Frame) -> bool:
    """Whether a thread can compile this frame as its call would."""
    return (
        not frame["export"]
        and frame.get("package") is None
        and not any(map(_has_gears, frame["locals"].values()))
    )


def _calls_may_go_on() -> bool:
    """Whether calls of this thread can do without the program that they ask for. Ranks of
    one program run the same: PyTorch's order of collectives may be another than a
    program's. In a forked child PyTorch's operators wait for threads that are gone."""
    return (
        not _child.is_set()
        and not torch.is_grad_enabled()
        and not torch._C._len_torch_function_stack()
        and torch._C._functorch.get_dynamic_layer_stack_depth() == 0
        and torch.autograd.forward_ad._current_level < 0
        and not _has_ranks()
    )


_child = threading.Event()  # whether this process was forked
os.register_at_fork(after_in_child=_child.set)


def _has_ranks() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def _has_gears(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_gears, value))
    if isinstance(value, dict):
        return any(map(_has_gears, value.values()))
    return isinstance(value, torch.Tensor) and bool(gears_of(value))


def in_pytorch() -> ConvertFrameReturn:
    """Tells Dynamo to run the frame, and all that it calls, as it is this time."""
    count = torch._C._dynamo.eval_frame.set_fullgraph_compiled_frame_count
    # Dynamo takes a call of `fullgraph=True` without a compiled frame for an error.
    if (frames := count(-1)) >= 0:
        count(frames + 1)
    return ConvertFrameReturn(
        frame_exec_strategy=FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP),
        apply_to_code=False,
    )


@contextlib.contextmanager
def _initial_state(state: Any) -> Iterator[None]:
    """Dynamo compares the state of the process with that in which the call began."""
    before = convert_frame.initial_global_state
    convert_frame.initial_global_state = state
    try:
        yield
    finally:
        convert_frame.initial_global_state = before


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Calls run an operator after the other, and wait for the interpreter's lock after
    each. Inside the block this thread gives it back sooner."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN))
    short = sys.getswitchinterval()  # Python rounds it
    try:
        yield
    finally:
        if sys.getswitchinterval() == short:
            sys.setswitchinterval(before)


@contextlib.contextmanager
def _leaving_settings() -> Iterator[None]:
    """Inside the block, this thread leaves the settings of the process as they are: the
    end of a trace gives them the values from its beginning. Others set them as ever."""
    # Dynamo finds functions of PyTorch by their names once.
    trace_rules.get_torch_obj_rule_map()
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in (
            (torch.random, "default_generator", _Generator()),
            (torch._C, "_set_default_dtype", _left("_set_default_dtype")),
            (
                torch._C,
                "_set_deterministic_algorithms",
                _left("_set_deterministic_algorithms"),
            ),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


class _Generator:
    """PyTorch's generator of random numbers, whose state this thread leaves."""

    def __init__(self) -> None:
        self._generator = torch.random.default_generator
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_state(self, state: torch.Tensor) -> Any:
        if threading.get_ident() != self._thread:
            return self._generator.set_state(state)
        return self


def _left(name: str) -> Callable[..., None]:
    """The function of this name, which this thread may not call but with the values that
    are set when the block begins."""
    function = getattr(torch._C, name)
    thread = threading.get_ident()
    before = _settings()

    def call(*args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != thread:
            function(*args, **kwargs)
        elif before[name] != (args, kwargs):
            raise _Changed

    return call


def _settings() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls that set what is set."""
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    return {
        "_set_default_dtype": ((torch.get_default_dtype(),), {}),
        "_set_deterministic_algorithms": ((deterministic,), {"warn_only": warns}),
    }
