"""Has a trace take recurrent layers in, each as one operator, and layers of bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._dynamo.config as settings

from ... import dynamo_lock
from .. import composites
from ..byte_layers import modules as byte_layers
from . import packed_layers
from .operators import RULES


@contextlib.contextmanager
def taken_in(packed: bool) -> Iterator[None]:
    """Inside the block traces take recurrent layers in. Under autocast, which changes
    dtypes within a layer, they do not.

    packed  whether Dynamo takes packed sequences in too, whose sizes the run decides
    """
    if torch._C._is_any_autocast_enabled():
        yield
        return
    with (
        dynamo_lock.held(),
        settings.patch(allow_rnn=True),
        composites.kept((), RULES),
        byte_layers.taken_in(),
        packed_layers.taken_in() if packed else contextlib.nullcontext(),
    ):
        yield
