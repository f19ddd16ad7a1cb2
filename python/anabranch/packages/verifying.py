"""anabranch.verify_weights: says which weights were written without PyTorch's knowledge.

Programs notice a write by the version that PyTorch counts. A WeightVerifier hashes the
weights of a model again and again. A weight whose values changed while its version and
its memory stayed the same was written silently."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..config import expect_seconds
from ..report import log, say
from .refreshing import hash_value, module_of, tensors_of

# Between a write and its count. A thread that was stopped there has ended by then.
_COUNTED = 0.2
_LEAST_PRIORITY = 19  # of a thread on Linux

Tell = Callable[[list[str]], object]


class Seen(NamedTuple):
    """A weight as the verifier has seen it."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    address: int
    hash: str

    def is_uncounted(self, tensor: torch.Tensor) -> bool:
        """Whether PyTorch knows of no write since then."""
        same = self.tensor() is tensor
        return same and (self.version, self.address) == _state(tensor)


def verify_weights(
    target: Any, *, seconds: float = 60.0, tell: Tell | None = None
) -> WeightVerifier:
    """Has a thread look every so many seconds for silent writes to a module's parameters
    and buffers: through `.data`, NumPy or another process.

    The thread has the least priority, so it runs where cores are idle. It ends with the
    module, or when the result's `close` is called.

    target   an nn.Module, what torch.compile or anabranch.compile made of one, or a
             method of one
    seconds  from the end of one look to the begin of the next
    tell     is called with the names of the weights, in that thread. None: a line on
             stderr.

    `anabranch.refresh` counts the writes that it finds, so nothing is said of them.
    TypeError, ValueError: an argument has a wrong type or value.
    """
    module = module_of(target, "verify_weights")
    expect_seconds("seconds", seconds)
    verifier = WeightVerifier(module, _say if tell is None else tell)
    verifier.look()
    verifier.start(seconds)
    return verifier


class WeightVerifier:
    """Knows the weights of a module as they were at the last look."""

    def __init__(self, module: torch.nn.Module, tell: Tell) -> None:
        self.module = weakref.ref(module)
        self.tell = tell
        self.seen: dict[str, Seen] = {}
        self.closed = threading.Event()

    def start(self, seconds: float) -> None:
        threading.Thread(
            target=_run, args=(self, seconds), name="verify weights", daemon=True
        ).start()

    def close(self) -> None:
        """Has the thread end."""
        self.closed.set()

    def look(self) -> list[str]:
        """Hashes all weights, and returns the names of those that were written silently
        since the last look."""
        if (module := self.module()) is None:
            self.close()
            return []
        before, self.seen, changed = self.seen, {}, []
        for name, tensor in tensors_of(module):
            if self.closed.is_set():
                return []
            known, now = before.get(name), _seen(tensor)
            if not now.is_uncounted(tensor):
                continue  # it was written meanwhile
            self.seen[name] = now
            if known is not None and known.is_uncounted(tensor):
                changed += [(name, tensor, known)] if known.hash != now.hash else []
        return self._uncounted(changed)

    def _uncounted(
        self, changed: Sequence[tuple[str, torch.Tensor, Seen]]
    ) -> list[str]:
        if changed and self.closed.wait(_COUNTED):
            return []
        return [name for name, tensor, known in changed if known.is_uncounted(tensor)]


def _run(verifier: WeightVerifier, seconds: float) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LEAST_PRIORITY)
    while not verifier.closed.wait(seconds):
        if names := verifier.look():
            verifier.tell(names)


def _seen(tensor: torch.Tensor) -> Seen:
    version, address = _state(tensor)
    return Seen(weakref.ref(tensor), version, address, hash_value(tensor))


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    """The version, and where the memory is. Tensors that were made in inference mode have
    no version."""
    return 0 if tensor.is_inference() else tensor._version, tensor.data_ptr()


def _say(names: list[str]) -> None:
    if not log("warning", "silent_write", weights=names):
        say(
            f"{', '.join(names)}: written without PyTorch's knowledge (docs/weights.md)."
            " anabranch.refresh(model) has programs use the present values"
        )
