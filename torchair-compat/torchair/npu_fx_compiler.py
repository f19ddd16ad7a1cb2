"""Private names that serving code imports, patches and reloads."""

from torchair._impl.compile.fx_compiler import (
    CompiledFxArtifacts as _CompiledFxArtifacts,
)
from torchair._impl.compile.fx_compiler import CompiledFxGraph as _CompiledFxGraph
from torchair._impl.compile.fx_compiler import NpuFxCompiler as _NpuFxCompiler
from torchair._impl.surface.captured import NpuGraphConverter as _NpuGraphConverter
from torchair._impl.surface.captured import unpack_meta as _unpack_meta
from torchair._impl.surface.captured import unpack_meta_list as _unpack_meta_list

__all__ = [
    "_CompiledFxArtifacts",
    "_CompiledFxGraph",
    "_NpuFxCompiler",
    "_NpuGraphConverter",
    "_unpack_meta",
    "_unpack_meta_list",
]
