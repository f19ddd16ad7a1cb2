"""anabranch.cache_compile: the first call of a method reads the compiled program from
the cache, or compiles and saves it.

A hit imports neither Dynamo nor the compiler's front end. docs/design/cache.md."""

from __future__ import annotations

import functools
import os
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import _C, collector, scratch
from ..config import Config, resolve
from ..packages import cache
from ..report import record
from .lookup.entry_key import entry_key
from .policy import CachePolicy
from .recording import Changed, Stale
from .start.load import Loader
from .start.replay import Replay

Call = Callable[..., Any]


def cache_compile(
    method: Call,
    *,
    config: Config | None = None,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    process: str | None = None,
    custom_decompositions: Mapping[Any, Call] | None = None,
) -> Call:
    """Compiles the method of a module at its first call, or reads it from the cache.

    method        a bound method of an nn.Module
    config        the options; default: Config()
    dynamic       as of torch.compile: whether sizes are symbols from the first call on
    cache_dir     the folder of the entries; None: Anabranch's own cache
    process       the name of this process in a program of several; each has entries of
                  its own. None: its rank in torch.distributed
    custom_decompositions  functions by operator; they win over Anabranch's own

    Returns a function with the method's arguments and results. The method must be one
    graph that is traced once, without gradients; a method with two cases has to become
    two methods.

    A replay has none of Dynamo's guards. Each call checks sizes and dtypes, and
    compares attributes, globals and arguments that the trace took for constant. If one
    differs, the method is compiled by torch.compile. ValueError: `method` is not a
    module's method.
    """
    policy = CachePolicy(
        check_method(method),
        config=resolve(config=config),
        dynamic=dynamic,
        root=None if cache_dir is None else os.fspath(cache_dir),
        process=process,
        decompositions=custom_decompositions,
    )
    return CachedMethod(policy).callable()


def check_method(method: Any) -> types.MethodType:
    """The method, if it is the method of an nn.Module. ValueError: it is anything else,
    which cannot be cached."""
    if not isinstance(method, types.MethodType):
        text = f"Only method can be cached now, got {method}"
        raise ValueError(text)  # noqa: TRY004 - callers catch one type for both
    if not isinstance(method.__self__, torch.nn.Module):
        # The module's attributes may not exist yet, so its text cannot be printed.
        name = method.__func__.__qualname__
        text = f"Only torch.nn.Module method can be cached now, got {name}"
        raise ValueError(text)  # noqa: TRY004
    return method


class CachedMethod:
    """A method on its way from its first call to a fast function.

    The first call looks for an entry (`lookup`) and starts it (`start`), or compiles the
    method and saves an entry (`save`). If a later call finds that the entry does not
    hold, the method is compiled in this process.
    """

    def __init__(self, policy: CachePolicy) -> None:
        self.policy = policy
        self._lock = threading.RLock()
        # The function of later calls: it takes the module and the method's arguments.
        self._run: Call | None = None
        self._entry: cache.Entry | None = None

    def callable(self) -> Call:
        """The callable: a plain function, since calls of a function cost least."""
        method = self.policy.method
        module = method.__self__
        is_enabled, enable = torch.is_grad_enabled, torch._C._set_grad_enabled

        def call(*args: Any, **kwargs: Any) -> Any:
            run = self._run
            if run is None:
                return self._first(args, kwargs)
            try:
                # The method itself may set the mode.
                before = is_enabled()
                enable(False)
                try:
                    return run(module, *args, **kwargs)
                finally:
                    enable(before)
            except (Changed, _C.SharedMemoryError) as reason:
                return self._compile_here(str(reason), args, kwargs)
            except Stale as reason:
                return self._outgrown(str(reason), args, kwargs)

        functools.update_wrapper(call, method.__func__)
        del call.__wrapped__  # type: ignore[attr-defined]
        # An outer torch.compile does not trace into the callable.
        call._torchdynamo_disable = True  # type: ignore[attr-defined]
        call._cached_method = self  # type: ignore[attr-defined]
        return call

    # The first call

    def _first(self, args: Any, kwargs: Any) -> Any:
        with self._lock, torch.no_grad():
            if self._run is None:
                return self._decide(args, kwargs)
            return self._run(self.policy.method.__self__, *args, **kwargs)

    def _decide(self, args: Any, kwargs: Any) -> Any:
        policy = self.policy
        key = entry_key(policy, args, kwargs)
        folder = policy.place(key) if policy.takes_part() else ""
        if not folder:
            return self._compile(args, kwargs)
        trust = getattr(policy.config, "trust", None)
        entry = self._entry = cache.Entry(folder, policy.index, trust)
        try:
            text = entry.read(self._broken)
            replay = None if text is None else self._load(entry, text, key)
            if replay is not None:
                try:
                    return self._start(entry, replay, args, kwargs)
                except Stale as reason:
                    entry.discard(str(reason), self._broken)
            return self._compile(args, kwargs, entry, key)
        finally:
            entry.close()

    def _load(self, entry: cache.Entry, index: str, key: str) -> Replay | None:
        """The replay of the entry. None: it cannot be loaded, and is removed."""
        self.policy.say(f"Loading cache from {self._path()}")
        try:
            return Loader(self.policy).load(entry.folder, index, key)
        except Exception as error:  # noqa: BLE001 - anybody may have made the entry
            entry.discard(str(error), self._broken)
            return None

    def _start(self, entry: cache.Entry, replay: Replay, args: Any, kwargs: Any) -> Any:
        """Makes the first call of a replay. Stale leads to a new compilation; any other
        error is the caller's, as in later calls."""
        entry.close()
        if trace := getattr(self.policy.config, "trace", None):
            from ..trace.profiler import trace_process

            trace_process(trace)
        result = replay.start(args, kwargs)
        self._run = replay.function
        record(
            {"name": self.policy.name, "cache": "hit"},
            rest=replay.report,
            executable=replay.executable,
            graphs=1,
            kernels=replay.executable.kernels,
            launches=replay.executable.launches,
            fallback_calls=replay.executable.host_calls,
        )
        self.policy.say(f"Cache {self.policy.name} loaded from {self._path()}")
        return result

    # No entry, or one that does not hold

    def _compile(
        self,
        args: Any,
        kwargs: Any,
        entry: cache.Entry | None = None,
        key: str = "",
    ) -> Any:
        """Makes a call by compiling the method, and saves the compilation in the entry."""
        from .save.compilation import Compilation, TracedMethod

        with collector.at_rest(), scratch.folder() as folder:
            traced = TracedMethod(self.policy, self._traced_again)
            compilation = Compilation(self.policy, traced, folder)
            result = compilation.call(args, kwargs)
            self._run = without_module(traced.function)
            index = compilation.save(entry, key)
            if self.policy.replays_at_once and entry is not None and index:
                self._replay_later(entry, index, key)
        return result

    def _replay_later(self, entry: cache.Entry, index: str, key: str) -> None:
        """Makes the next call the first one of a replay of this entry."""
        replay = self._load(entry, index, key)
        if replay is None:
            return

        def start(module: Any, *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if self._run is not start:
                    assert self._run is not None
                    return self._run(module, *args, **kwargs)
                result = replay.start(args, kwargs)
                self._run = replay.function
                return result

        self._run = start

    def _outgrown(self, reason: str, args: Any, kwargs: Any) -> Any:
        """Makes a call that the entry does not cover. Nothing of the call has run yet."""
        with self._lock, torch.no_grad():
            self.policy.say(reason)
            self._traced_again()
            return self._compile(args, kwargs)

    def _compile_here(self, reason: str, args: Any, kwargs: Any) -> Any:
        """Makes a call after frozen weights or the global state changed, by compiling in
        this process. The executable and Dynamo follow further changes themselves."""
        with self._lock, torch.no_grad():
            self.policy.say(reason)
            return self._compile(args, kwargs)

    def _traced_again(self) -> None:
        """A function has one trace. A second one removes the entry."""
        if self.policy.outgrown() and self._entry is not None:
            self._entry.remove()

    def _broken(self, reason: str) -> None:
        self.policy.broken(self._path(), reason)

    def _path(self) -> str:
        assert self._entry is not None
        return os.path.join(self._entry.folder, self.policy.index)


def without_module(compiled: Call) -> Call:
    """The compiled method, which is bound, as a function that also takes the module."""

    def run(_: Any, *args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    return run
