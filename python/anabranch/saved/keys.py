"""Lets AOTAutograd save what it compiles, and find it again.

AOTAutograd's own key of a graph does not name the compiler, its options, the marks of
the user or the values of frozen weights. PyTorch has a setting for more of a key."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx
from torch._dynamo.aot_compile_types import GraphModuleSerializableCallable
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from .. import _C
from ..describe.description import InputSource
from ..report import record_eager
from . import saving


@contextlib.contextmanager
def keyed(
    saves: bool,
    key: str,
    module: torch.fx.GraphModule,
    sources: Iterable[InputSource],
) -> Iterator[None]:
    """Inside the block, AOTAutograd saves what it compiles under `key` and all that its
    own key leaves out; or it saves nothing."""
    if not saves:
        # AOTAutograd takes only artefacts where this setting is on.
        required = saving.is_required()
        off = torch._functorch.config.patch(force_autograd_cache=False)
        with off if required else contextlib.nullcontext():
            yield
        return
    frozen = [s.constant for s in sources if s.constant is not None]
    marks = [str(node.meta.get("custom") or "") for node in module.graph.nodes]
    text = json.dumps(
        [
            torch.compiler.config.cache_key_tag,
            key or str(uuid.uuid4()),
            marks,
            [_C.hash_tensor(value.contiguous()) for value in frozen],
        ]
    )
    tag = f"anabranch {hashlib.sha256(text.encode()).hexdigest()}"
    with torch.compiler.config.patch(cache_key_tag=tag), saving.switched(True):
        yield


def compiler(compile_one: Callable[..., Any]) -> Callable[..., Any]:
    """The compiler as AOTAutograd expects it where it saves what the compiler returns."""
    if not saving.is_on():
        return compile_one
    return SerializableAOTDispatchCompiler(OutputCode, compile_one)


def with_artefact(
    call: Callable[..., Any], module: torch.fx.GraphModule, explain: bool
) -> Callable[..., Any]:
    """`call`, or if it has no artefact and PyTorch requires one, the Dynamo graph as
    PyTorch saves it and runs it."""
    if not saving.is_required() or getattr(call, "serialize", None) is not None:
        return call
    record_eager("graph", "PyTorch saves it, and no artefact can hold it", explain)
    return GraphModuleSerializableCallable(module)
