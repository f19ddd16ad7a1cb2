"""CompilerConfig: the flat options of the capture path."""

from torchair._impl.options.flat import CompilerConfig

__all__ = ["CompilerConfig"]
