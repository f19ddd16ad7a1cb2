"""Anabranch: a graph compiler and runtime for PyTorch inference.

A public name is imported when it is first used. So a start from the cache imports
neither Dynamo nor the compiler's front end, and a process that only loads packages
needs no PyTorch.

Inside, start with `backend`, which compiles one Dynamo graph. The wings, in the order in
which `test/repo/test_python_arrows.py` lets them import each other:

marks/          what users mark: streams, events, super kernels, gears
collectives/    the collectives of torch.distributed in a graph
describe/       an ATen graph as the JSON that the compiler reads
trace/          what ran when
notices/        what makes a model's first calls slow
guards/         what Dynamo's guards cost a call
shapes/         programs for sizes that change
packages/       from a description to an executable, with the caches on disk
saved/          compiled graphs that PyTorch saves
capture/        from a Dynamo graph to ATen graphs
backend         torch.compile(model, backend="anabranch") and anabranch.compile
deploy/         packages that run without PyTorch
method_cache/   cache_compile
extension/      the door for front ends
llm/            language models
measure/        latency and throughput of packages and models
commands/       the larger commands of `anabranch`
cli             the command `anabranch`
tools           the command `anabranch-opt` of an installed wheel
config          the options of a compilation, and the environment's defaults
errors          the errors that users meet
location        the user's line that a node comes from
report          counters, reports and messages
metrics         figures for a monitoring system
attributes      how Python finds an attribute
purity          which operators and graphs write nothing in place; defines such operators
list_arguments  makes arguments of the tensors of a list that Dynamo passes whole
parameter_file  moves parameters out of memory
memory          how much memory there is
huge_pages      has memory in huge pages
scratch         private folders for what is being compiled
collector       lets the garbage collector rest
dynamo_lock     lets one thread trace at a time
torch_version   refuses a torch that was not tested
"""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from . import metrics
    from .backend import anabranch, compile
    from .config import Config
    from .deploy.export import export
    from .deploy.load import Package, load
    from .errors import CompileError, FrozenWeightError, SavedGraphError
    from .marks.gear_sizes import set_gears
    from .marks.scope import limit_cores, record, stream, wait, wait_event
    from .marks.super_kernel import super_kernel
    from .method_cache.cached_method import cache_compile
    from .packages.refreshing import refresh
    from .packages.verifying import verify_weights
    from .report import counters, last_report
    from .trace.profiler import Trace, profile

__all__ = [
    "CompileError",
    "Config",
    "FrozenWeightError",
    "Package",
    "SavedGraphError",
    "Trace",
    "anabranch",
    "cache_compile",
    "compile",
    "counters",
    "export",
    "last_report",
    "limit_cores",
    "load",
    "metrics",
    "profile",
    "record",
    "refresh",
    "set_gears",
    "stream",
    "super_kernel",
    "verify_weights",
    "wait",
    "wait_event",
]
__version__ = "0.1.0"

# Modules that work without PyTorch; the others need a tested version of it.
_WITHOUT_TORCH = ("config", "deploy.load", "trace.profiler")
_HOMES = {
    "backend": ("anabranch", "compile"),
    "config": ("Config",),
    "deploy.export": ("export",),
    "deploy.load": ("Package", "load"),
    "errors": ("CompileError", "FrozenWeightError", "SavedGraphError"),
    "marks.gear_sizes": ("set_gears",),
    "marks.scope": ("limit_cores", "record", "stream", "wait", "wait_event"),
    "marks.super_kernel": ("super_kernel",),
    "method_cache.cached_method": ("cache_compile",),
    "packages.refreshing": ("refresh",),
    "packages.verifying": ("verify_weights",),
    "report": ("counters", "last_report"),
    "trace.profiler": ("Trace", "profile"),
}


def __getattr__(name: str) -> _Any:
    if name == "metrics":
        return _importlib.import_module(f"{__name__}.metrics")
    for home, names in _HOMES.items():
        if name in names:
            if home not in _WITHOUT_TORCH:
                _check_torch()
            value = getattr(_importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_torch() -> None:
    from . import torch_version

    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise torch_version.missing() from None

    # While torch itself is being imported, a module of torch may import Anabranch:
    # torch has no version yet.
    if version := getattr(torch, "__version__", None):
        torch_version.check(version)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# If torch is imported already, its version is checked now and not at the first use.
if "torch" in _sys.modules:
    _check_torch()
