"""Weights of a model: few bits for each, or none of them in memory."""

from __future__ import annotations

from ..capture import kept_whole
from ..parameter_file import ParameterFile

__all__ = ["ParameterFile", "dequantized"]

dequantized = kept_whole.dequantized
