"""The older name of the module of CompilerConfig."""

from .compiler_config import CompilerConfig, _process_kwargs_options

__all__ = ["CompilerConfig", "_process_kwargs_options"]
