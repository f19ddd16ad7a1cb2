"""Graphs that vLLM saves and loads.

After vLLM has loaded a saved graph, it calls `finalize_loading` of its function. PyTorch
gives back a plain function, so the graph is saved by a class that gives it the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.aot_compile_types import (
    BundledAOTAutogradSerializableCallable as Bundled,
)
from torch._dynamo.aot_compile_types import SerializableCallable

import anabranch

from . import attention


def as_vllm_saves_it(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph that vLLM can load again, or `compiled` if it is none that
    PyTorch saves by its package."""
    if getattr(compiled, "serialize", None) is None:
        return compiled
    return SavedGraph(compiled)


class SavedGraph(SerializableCallable):  # type: ignore[misc]
    """The function of a graph that was compiled, and is saved after that."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self.compiled = compiled

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @classmethod
    def serialize_compile_artifacts(cls, fn: SavedGraph) -> bytes:
        content = Bundled.serialize_compile_artifacts(Bundled(fn.compiled))
        return _seal() + content

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> LoadedGraph:
        """SavedGraphError: another version made the graph. vLLM then compiles again, and
        its log has the reason."""
        if not data.startswith(_seal()):
            raise anabranch.SavedGraphError(
                "another version of anabranch-vllm made the saved graph"
            )
        attention.register()
        content = data.removeprefix(_seal())
        return LoadedGraph(Bundled.deserialize_compile_artifacts(content))


def _seal() -> bytes:
    """The first line of a saved graph: the operator that it calls, as this version
    defines it. Anabranch's own seal names the compiler and the processor."""
    return f"anabranch-vllm {attention.SCHEMA}\n".encode()


class LoadedGraph:
    """The function of a graph that was loaded."""

    def __init__(self, loaded: Callable[..., Any]) -> None:
        self.loaded = loaded

    def __call__(self, *arguments: Any) -> Any:
        return self.loaded(*arguments)

    def finalize_loading(self, vllm_config: Any) -> None:
        """Does nothing: PyTorch has loaded the program already."""
