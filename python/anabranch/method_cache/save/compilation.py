"""Compiles a method with torch.compile, follows the compilation, and saves it."""

from __future__ import annotations

import datetime
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...capture.frames import takes_recurrent_layers, takes_run_sizes
from ...packages import cache
from ..lookup.comparisons import bind
from ..policy import CachePolicy
from ..recording import CODE, REPORT, NotCacheable
from ..start import later_tiers
from .recorder import Recorder

Call = Callable[..., Any]


class TracedMethod:
    """A method that torch.compile compiled. Once `is_called`, `traced_again` runs before
    the next trace."""

    def __init__(self, policy: CachePolicy, traced_again: Callable[[], None]) -> None:
        self.is_called = False
        self._inner = policy.backend()
        self._traced_again = traced_again
        self.function = torch.compile(
            policy.method, backend=self._backend, dynamic=policy.dynamic, fullgraph=True
        )

    @takes_run_sizes
    @takes_recurrent_layers
    def _backend(self, module: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("Backward cache compilation is not supported yet")
        if self.is_called:
            self.is_called = False
            self._traced_again()
        return self._inner(module, inputs, **settings)


class Compilation:
    """The first call of a traced method, which compiles it. `folder` keeps the package
    until `save`."""

    def __init__(self, policy: CachePolicy, traced: TracedMethod, folder: str) -> None:
        self.policy = policy
        self._traced = traced
        self._recorder = Recorder(policy.method, folder)
        self._locals: Mapping[str, Any] = {}

    def call(self, args: Any, kwargs: Any) -> Any:
        method = self.policy.method
        self._locals = bind(method.__func__, method.__self__, args, kwargs)
        with self._recorder.listening():
            result = self._traced.function(*args, **kwargs)
        self._traced.is_called = True
        return result

    def save(self, entry: cache.Entry | None, key: str) -> str:
        """Saves the compilation in the entry. Returns the entry's index; empty: nothing
        is saved. The policy hears why a compilation cannot be saved."""
        try:
            self._recorder.check()
            if entry is not None and entry.usable:
                return self._publish(entry, key)
        except NotCacheable as reason:
            self.policy.skip(str(reason))
        return ""

    def _publish(self, entry: cache.Entry, key: str) -> str:
        policy, recorder = self.policy, self._recorder
        recording = recorder.recording(self._locals, key, self._about())
        index, blobs = recording.index(), {CODE: recording.blob()}
        blobs[REPORT] = json.dumps(recorder.report).encode()
        path = os.path.join(entry.folder, policy.index)
        policy.say(f"Saving cache for {policy.name} to {path}")
        blobs |= policy.blobs(recorder.folder)
        if getattr(policy.config, "shapes", "") == "tiered":
            assert recorder.described is not None
            blobs |= later_tiers.save(recorder.described, recorder.places)
        if not entry.publish(recorder.folder, blobs, index):
            return ""
        policy.say(f"Cache {policy.name} saved to {path}")
        if policy.is_limited:
            cache.keep_small(policy.root or cache.folder())
        return index

    def _about(self) -> dict[str, Any]:
        """The text of `readable_cache` about the entry."""
        policy = self.policy
        return {
            "name": f"{policy.name}{inspect.signature(policy.method.__func__)}",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "torch": torch.__version__,
            "python": sys.version,
            "options": policy.settings(),
        }
