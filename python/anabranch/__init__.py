"""Anabranch: a graph compiler and runtime for PyTorch inference.

What a name needs is imported when the name is used: a start from the cache
needs neither Dynamo nor the front end of the compiler, a package that is loaded
needs no PyTorch.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from .backend import anabranch, compile
    from .cached import cache_compile
    from .config import Config
    from .deployed import Package, load
    from .errors import CompileError
    from .exporting import export
    from .gears import set_gears
    from .profiler import Trace, profile
    from .report import counters, last_report
    from .scope import limit_cores, record, stream, wait, wait_event
    from .super import super_kernel

__all__ = [
    "CompileError",
    "Config",
    "Package",
    "Trace",
    "anabranch",
    "cache_compile",
    "compile",
    "counters",
    "export",
    "last_report",
    "limit_cores",
    "load",
    "profile",
    "record",
    "set_gears",
    "stream",
    "super_kernel",
    "wait",
    "wait_event",
]
__version__ = "0.1.0"

_HOMES = {
    "backend": ("anabranch", "compile"),
    "cached": ("cache_compile",),
    "config": ("Config",),
    "deployed": ("Package", "load"),
    "errors": ("CompileError",),
    "exporting": ("export",),
    "gears": ("set_gears",),
    "profiler": ("Trace", "profile"),
    "report": ("counters", "last_report"),
    "scope": ("limit_cores", "record", "stream", "wait", "wait_event"),
    "super": ("super_kernel",),
}


def __getattr__(name: str) -> _Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(_importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
