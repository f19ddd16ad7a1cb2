"""anabranch.cache_compile: the first call of a method reads the compiled program from
the cache, or compiles and saves it.

A hit imports neither Dynamo nor the compiler's front end. docs/design/cache.md."""

from __future__ import annotations

import datetime
import functools
import inspect
import json
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _C, collector, parameter_file, scratch
from ..config import Config, resolve
from ..marks.gear_sizes import gears_of
from ..packages import cache, donors
from ..report import record
from . import later_tiers
from .bytecode import code_digest
from .calling import Calling, load_executable
from .global_state import global_state
from .recording import CODE, REPORT, Changed, Recording, Stale
from .replay import Replay, bind

Call = Callable[..., Any]


def cache_compile(
    method: Call,
    *,
    config: Config | None = None,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    custom_decompositions: Mapping[Any, Call] | None = None,
) -> Call:
    """Compiles the method of a module at its first call, or reads it from the cache.

    method        a bound method of an nn.Module
    config        the options; default: Config()
    dynamic       as of torch.compile: whether sizes are symbols from the first call on
    cache_dir     the folder of the entries; None: Anabranch's own cache
    global_rank, tp_rank, pp_rank  the number of this process in a program of several;
                  each process has entries of its own
    custom_decompositions  functions by operator; they win over Anabranch's own

    Returns a function with the method's arguments and results. The method must be one
    graph that is traced once, without gradients; a method with two cases has to become
    two methods.

    A replay has none of Dynamo's guards. Each call checks sizes and dtypes, and
    compares attributes, globals and arguments that the trace took for constant. If one
    differs, the method is compiled by torch.compile. ValueError: `method` is not a
    module's method.
    """
    made = CachedMethod(
        check_method(method),
        config=resolve(config=config),
        dynamic=dynamic,
        root=None if cache_dir is None else os.fspath(cache_dir),
        ranks=Ranks(global_rank, tp_rank, pp_rank),
        decompositions=dict(custom_decompositions or {}),
    )
    return made.callable()


def check_method(method: Any) -> types.MethodType:
    if not isinstance(method, types.MethodType):
        text = f"Only method can be cached now, got {method}"
        raise ValueError(text)  # noqa: TRY004 - as the reference has it
    if not isinstance(method.__self__, torch.nn.Module):
        # The module's attributes may not exist yet, so its text cannot be printed.
        name = method.__func__.__qualname__
        text = f"Only torch.nn.Module method can be cached now, got {name}"
        raise ValueError(text)  # noqa: TRY004
    return method


class Ranks:
    """The ranks of this process in a program of several processes."""

    def __init__(self, world: int | None, tp: int | None, pp: int | None) -> None:
        self.world, self.tp, self.pp = world, tp, pp

    def text(self) -> str:
        """The name of the ranks in a path; empty for a process by itself."""
        parts = []
        group = torch.distributed
        if group.is_available() and group.is_initialized():
            size = group.get_world_size()
            rank = group.get_rank() if self.world is None else self.world
            if size > 1:
                parts.append(f"world{size}global_rank{rank}")
        if self.tp is not None:
            parts.append(f"tp_rank{self.tp}")
        if self.pp is not None:
            parts.append(f"pp_rank{self.pp}")
        return "_".join(parts)


class CachedMethod:
    """A method on its way from the first call to a fast callable."""

    index = "entry.json"
    # whether the first call compares sizes and strides with those of the trace
    strict = False
    # Whether the process that compiled the method replays the entry, too, once it is
    # saved. Its later calls then have none of Dynamo's guards, and other sizes are an
    # error as they are in later processes.
    replays_at_once = False

    def __init__(
        self,
        method: types.MethodType,
        *,
        config: Any,
        dynamic: bool,
        root: str | None,
        ranks: Ranks,
        decompositions: dict[Any, Call],
    ) -> None:
        self.method = method
        self.config = config
        self.dynamic = dynamic
        self.root = root
        self.ranks = ranks
        self.decompositions = decompositions
        self.name = method.__func__.__qualname__
        self._lock = threading.RLock()
        self._run: Call | None = None
        self._entry: cache.Entry | None = None
        self._saved = False

    def callable(self) -> Call:
        """The callable: a plain function, since calls of a function cost least."""
        module = self.method.__self__
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

        functools.update_wrapper(call, self.method.__func__)
        del call.__wrapped__  # type: ignore[attr-defined]
        # An outer torch.compile does not trace into the callable.
        call._torchdynamo_disable = True  # type: ignore[attr-defined]
        call._cached_method = self  # type: ignore[attr-defined]
        return call

    # Front ends with another interface override these methods.

    def settings(self) -> Any:
        """The fields of the configuration that the result depends on."""
        return {
            key: value
            for key, value in self.config.as_dict().items()
            if key not in cache.WATCHING
        }

    def takes_part(self) -> bool:
        return cache.takes_part(self.config)

    def place(self, identity: str) -> str:
        """The entry's folder; empty without a cache."""
        root = self.root or cache.folder()
        return cache.entry_folder(root, cache.FUNCTIONS, identity) if root else ""

    def backend(self) -> Call:
        from ..backend import anabranch

        return functools.partial(
            anabranch, config=self.config, decompositions=self.decompositions
        )

    def threads(self) -> int:
        return self.config.threads

    def trust(self) -> str:
        """Whose entries are read; empty: as ANABRANCH_TRUST says."""
        return getattr(self.config, "trust", None) or ""

    def shapes_key(self, args: Any, kwargs: Any) -> Any:
        """The sizes of the arguments, for a key: static graphs of other sizes are other
        entries."""
        shapes = [
            [str(t.dtype), t.dim(), None if self.dynamic else [*t.shape, *t.stride()]]
            for t in _tensors(args, kwargs)
        ]
        return [shapes, self.gears_key(args, kwargs)]

    def gears_key(self, args: Any, kwargs: Any) -> Any:
        """The gears of the arguments, for a key; empty without any."""
        gears = [gears_of(t) for t in _tensors(args, kwargs)]
        return [sorted(g.items()) for g in gears] if any(gears) else []

    def blobs(self, package: str) -> dict[str, bytes]:
        """More files for the entry, by name."""
        return {}

    def tidy(self) -> None:
        """Runs after an entry was added."""
        cache.keep_small(self.root or cache.folder())

    def say(self, text: str) -> None:
        """Gets messages about the entry. A front end may print them."""

    def broken(self, reason: str) -> None:
        self.say(f"Clear broken cache {self.path()} as {reason}")

    def skip(self, reason: str) -> None:
        cache.warn_once(
            f"skip {self.name}", f"Skip cache as {self.name} can't be: {reason}"
        )

    def outgrown(self) -> None:
        """The method has to be compiled again for arguments that the entry does not
        cover. Says so and removes the entry."""
        warnings.warn(
            f"Skip cache as {self.name} recompiled, set"
            " torch._logging.set_logs(recompiles=True) for details",
            stacklevel=2,
        )
        if self._entry is not None:
            self._entry.remove()

    # The first call

    def _first(self, args: Any, kwargs: Any) -> Any:
        with self._lock, torch.no_grad():
            if self._run is None:
                return self._decide(args, kwargs)
            return self._run(self.method.__self__, *args, **kwargs)

    def _decide(self, args: Any, kwargs: Any) -> Any:
        identity = self.identity(args, kwargs)
        folder = self.place(identity) if self.takes_part() else ""
        if not folder:
            return self._compile(args, kwargs, None, identity)
        entry = self._entry = cache.Entry(folder, self.index, self.trust())
        try:
            text = entry.read(self.broken)
            replay = None if text is None else self._load(entry, text, identity)
            if replay is not None:
                try:
                    return self._start(entry, replay, args, kwargs)
                except Stale as reason:
                    entry.discard(str(reason), self.broken)
            return self._compile(args, kwargs, entry, identity)
        finally:
            entry.close()

    def identity(self, args: Any, kwargs: Any) -> str:
        function, module = self.method.__func__, self.method.__self__
        kind = type(module)
        return cache.digest(
            cache.FORMAT,
            cache.identity(),
            cache.own_sources(),
            [sys.version, torch.__version__],
            [kind.__module__, kind.__qualname__, self.name, str(module)],
            code_digest(function.__code__),
            _forward_digests(module),
            self.settings(),
            [self.dynamic, self.ranks.text(), self.shapes_key(args, kwargs)],
            str(global_state()),
            sorted(
                [str(operator), _function_digest(function)]
                for operator, function in self.decompositions.items()
            ),
        )

    def _load(self, entry: cache.Entry, text: str, identity: str) -> Replay | None:
        self.say(f"Loading cache from {self.path()}")
        try:
            with collector.at_rest():
                return self._replay(entry.folder, text, identity)
        except Exception as error:  # noqa: BLE001 - anybody may have made the entry
            entry.discard(str(error), self.broken)
            return None

    def _replay(self, folder: str, index: str, identity: str) -> Replay:
        recording = Recording.read(index, folder, identity)
        calling = recording.calling
        module: Any = self.method.__self__
        freeze = getattr(self.config, "freeze", False)
        if freeze == "move":
            tensors = (*module.parameters(), *module.buffers())
            parameter_file.move(tensors, scratch.place())
        weights = recording.frozen_weights(module)
        parameter_file.drop_all_pages()
        executable = load_executable(
            folder, calling, self.threads(), self.trust(), donors.find(weights)
        )
        donors.add(weights, executable)
        for key in recording.kernels:
            self._add_kernels(executable, key, calling)
        replay = Replay(self.method, recording, executable, self.strict, freeze)
        with open(os.path.join(folder, REPORT), encoding="utf-8") as report:
            replay.report = report.read()
        if later_tiers.FILE in os.listdir(folder):
            with open(os.path.join(folder, later_tiers.FILE), "rb") as file:
                described = file.read()
            later = later_tiers.LaterTiers(executable, described, calling, self.config)
            replay.noticed = later.begin
        return replay

    def _add_kernels(self, executable: Any, key: str, calling: Calling) -> None:
        """Adds a program for exact shapes to the executable, if the library still has
        it."""
        library = cache.folder()
        if not library:
            return
        entry = cache.Entry(
            cache.entry_folder(library, cache.KERNELS, key), trust=self.trust()
        )
        try:
            if entry.read() is not None:
                static = load_executable(
                    entry.folder, calling, self.threads(), self.trust()
                )
                executable.add(static)
        finally:
            entry.close()

    def _start(self, entry: cache.Entry, replay: Replay, args: Any, kwargs: Any) -> Any:
        """Makes the first call of a replay. Stale leads to a new compilation; any other
        error is the caller's, as in later calls."""
        entry.close()
        if trace := getattr(self.config, "trace", None):
            from ..trace.profiler import trace_process

            trace_process(trace)
        result = replay.start(args, kwargs)
        self._run = replay.function
        record(
            {"name": self.name, "cache": "hit"},
            rest=replay.report,
            graphs=1,
            kernels=replay.executable.kernels,
            launches=replay.executable.launches,
            fallback_calls=replay.executable.host_calls,
        )
        self.say(f"Cache {self.name} loaded from {self.path()}")
        return result

    # No entry: compile and save

    def _compile(
        self, args: Any, kwargs: Any, entry: cache.Entry | None, identity: str
    ) -> Any:
        from .dynamo import NotCacheable
        from .recorder import Recorder

        module = self.method.__self__
        with collector.at_rest(), scratch.folder() as folder:
            recorder = Recorder(self.method, folder)
            compiled = self._torch_compile()
            known = bind(self.method.__func__, module, args, kwargs)
            with recorder.listening():
                result = compiled(*args, **kwargs)
            self._run, self._saved = self._without_self(compiled), True
            try:
                recorder.check()
                index = self._save(recorder, known, entry, identity)
            except NotCacheable as reason:
                self.skip(str(reason))
            else:
                if self.replays_at_once and entry is not None and index:
                    self._replay_later(entry, index, identity)
        return result

    def _replay_later(self, entry: cache.Entry, index: str, identity: str) -> None:
        """Makes the next call the first one of a replay of this entry."""
        replay = self._load(entry, index, identity)
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

    def _torch_compile(self) -> Call:
        inner = self.backend()

        def backend(module: Any, inputs: Sequence[Any], **settings: Any) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError("Backward cache compilation is not supported yet")
            if self._saved:
                self._recompiled()
            return inner(module, inputs, **settings)

        return torch.compile(
            self.method, backend=backend, dynamic=self.dynamic, fullgraph=True
        )

    def _outgrown(self, reason: str, args: Any, kwargs: Any) -> Any:
        """Makes a call that the entry does not cover. Nothing of the call has run yet."""
        with self._lock, torch.no_grad():
            self.say(reason)
            self._recompiled()
            return self._compile(args, kwargs, None, "")

    def _compile_here(self, reason: str, args: Any, kwargs: Any) -> Any:
        """Makes a call after frozen weights or the global state changed, by compiling in
        this process. The executable and Dynamo follow further changes themselves."""
        with self._lock, torch.no_grad():
            self.say(reason)
            return self._compile(args, kwargs, None, "")

    @staticmethod
    def _without_self(compiled: Call) -> Call:
        def run(_: Any, *args: Any, **kwargs: Any) -> Any:
            return compiled(*args, **kwargs)

        return run

    def _recompiled(self) -> None:
        self._saved = False
        self.outgrown()

    def _save(
        self,
        recorder: Any,
        known: Mapping[str, Any],
        entry: cache.Entry | None,
        identity: str,
    ) -> str:
        """Saves the compilation. Returns the entry's index; empty: it was not saved."""
        if entry is None or not entry.usable:
            return ""
        signature = inspect.signature(self.method.__func__)
        meta = {
            "name": f"{self.name}{signature}",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "torch": torch.__version__,
            "python": sys.version,
            "options": self.settings(),
        }
        recording = recorder.recording(known, identity, meta)
        index, blobs = recording.index(), {CODE: recording.blob()}
        blobs[REPORT] = json.dumps(recorder.report).encode()
        self.say(f"Saving cache for {self.name} to {self.path()}")
        blobs |= self.blobs(recorder.folder)
        if getattr(self.config, "shapes", "") == "tiered":
            blobs |= later_tiers.save(recorder.described, recorder.places)
        if not entry.publish(recorder.folder, blobs, index):
            return ""
        self.say(f"Cache {self.name} saved to {self.path()}")
        self.tidy()
        return index

    def path(self) -> str:
        assert self._entry is not None
        return os.path.join(self._entry.folder, self.index)


def _tensors(args: Any, kwargs: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _forward_digests(module: Any) -> list[tuple[str, str, str]]:
    """Hashes of the `forward` of each class of the module's parts. A program may
    replace a class's `forward`, which no source file and no guard shows."""
    kinds = {type(part) for part in module.modules()}
    return sorted(
        (kind.__module__, kind.__qualname__, _function_digest(kind.forward))
        for kind in kinds
    )


def _function_digest(function: Call) -> str:
    code = getattr(function, "__code__", None)
    return code_digest(code) if code else getattr(function, "__qualname__", "")
