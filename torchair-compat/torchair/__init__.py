"""TorchAir's programming interface on hosts without an NPU, over Anabranch."""

import os as _os

from ._impl.device.real import refuse_real as _refuse_real

_refuse_real()

from anabranch.extension import hide_frames as _hide_frames

_hide_frames(_os.path.dirname(__file__))

from . import ge, inference, llm_datadist, ops, scope
from ._impl.collectives.traced import install as _install_collectives
from ._impl.compile.backend import get_compiler, get_npu_backend
from ._impl.compile.exporting import dynamo_export
from ._impl.compile.graph_breaks import install as _install_breaks
from ._impl.compile.patterns import register_replacement
from ._impl.compile.unsupported import patch_for_hcom
from ._impl.device.install import install as _install
from ._impl.ge.converters import register_fx_node_ge_converter
from ._impl.operators import published as _published  # noqa: F401 - defines them
from ._impl.operators.memory.formats import install as _install_formats
from ._impl.operators.memory.layouts import (
    npu_format_cast_via_cpu,
    use_internal_format_weight,
)
from ._impl.public_names import publish as _publish
from .configs.compiler_config import CompilerConfig
from .core.utils import logger

__all__ = [
    "CompilerConfig",
    "dynamo_export",
    "ge",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "llm_datadist",
    "logger",
    "npu_format_cast_via_cpu",
    "ops",
    "patch_for_hcom",
    "register_fx_node_ge_converter",
    "register_replacement",
    "scope",
    "use_internal_format_weight",
]
__version__ = "0.1.0"

_install()
_install_formats()
_install_collectives()
_install_breaks()
_publish(__name__)
