"""TorchAir's programming interface on hosts without an NPU, over Anabranch."""

from ._npu.real import refuse_real as _refuse_real

_refuse_real()

from ._backend import get_compiler, get_npu_backend
from .configs.compiler_config import CompilerConfig
from .core.utils import logger

__all__ = ["CompilerConfig", "get_compiler", "get_npu_backend", "logger"]
__version__ = "0.1.0"
