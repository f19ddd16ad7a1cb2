"""CompilerConfig, where scripts import it from."""

from .._impl.options.config import CompilerConfig

__all__ = ["CompilerConfig"]
