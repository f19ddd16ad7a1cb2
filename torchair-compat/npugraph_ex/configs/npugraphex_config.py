"""The older name of the module of CompilerConfig."""

from torchair._impl.options.flat import CompilerConfig
from torchair._impl.options.flat import (
    process_kwargs_options as _process_kwargs_options,
)

__all__ = ["CompilerConfig", "_process_kwargs_options"]
