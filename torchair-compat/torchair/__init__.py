"""TorchAir's programming interface on hosts without an NPU, over Anabranch."""

import os as _os

from anabranch.location import hide as _hide

from ._npu.real import refuse_real as _refuse_real

_refuse_real()
_hide(_os.path.dirname(__file__))

from . import inference, ops, scope
from ._backend import get_compiler, get_npu_backend
from .configs.compiler_config import CompilerConfig
from .core.utils import logger

__all__ = [
    "CompilerConfig",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "ops",
    "scope",
]
__version__ = "0.1.0"
