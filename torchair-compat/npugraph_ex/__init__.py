"""npugraph_ex: torchair's capture path under its own name, with a flat configuration."""

import torchair as _torchair
from torchair._impl.compile.backend import compile_flat as compile_fx
from torchair._impl.compile.backend import get_compiler
from torchair._impl.compile.backend import get_flat_backend as get_npu_backend
from torchair._impl.compile.patterns import register_replacement
from torchair._impl.log import logger
from torchair._impl.options.flat import CompilerConfig

from . import inference, scope

__all__ = [
    "CompilerConfig",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "register_replacement",
    "scope",
]
__version__ = _torchair.__version__
