"""Has a trace take recurrent layers in, each as one operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._dynamo.config as settings

from ... import dynamo_lock
from .. import composites
from .operators import RULES


@contextlib.contextmanager
def taken_in() -> Iterator[None]:
    """Inside the block traces take recurrent layers in. Under autocast, which changes
    dtypes within a layer, they do not."""
    if torch._C._is_any_autocast_enabled():
        yield
        return
    with (
        dynamo_lock.held(),
        settings.patch(allow_rnn=True),
        composites.kept((), RULES),
    ):
        yield
