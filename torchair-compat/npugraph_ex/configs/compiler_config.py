"""CompilerConfig: the flat options of the capture path."""

from torchair._impl.options.flat import CompilerConfig
from torchair._impl.options.flat import (
    process_kwargs_options as _process_kwargs_options,
)

__all__ = ["CompilerConfig", "_process_kwargs_options"]
