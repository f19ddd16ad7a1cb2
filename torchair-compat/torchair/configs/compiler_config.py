"""CompilerConfig: the options of the backend."""

from .._impl.options.config import CompilerConfig

__all__ = ["CompilerConfig"]
