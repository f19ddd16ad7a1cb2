"""Anabranch: a graph compiler and runtime for PyTorch inference."""

from .backend import anabranch, compile
from .config import Config
from .errors import CompileError
from .gears import set_gears
from .profiler import Trace, profile
from .report import counters, last_report
from .scope import limit_cores, record, stream, wait, wait_event

__all__ = [
    "CompileError",
    "Config",
    "Trace",
    "anabranch",
    "compile",
    "counters",
    "last_report",
    "limit_cores",
    "profile",
    "record",
    "set_gears",
    "stream",
    "wait",
    "wait_event",
]
__version__ = "0.1.0"
