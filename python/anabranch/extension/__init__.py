"""The door for front ends: packages that put another programming interface over
Anabranch's compiler, and `anabranch.llm`.

A front end imports `anabranch` and this module, and nothing else of the package:
the names here stay when the modules that they come from move. Each is imported when it
is first used. docs/design/extension.md shows how a front end uses them, in the order in
which a graph meets them. Start with `graphs`.

graphs         options, trace, compilation: the way of a graph
marks          streams, waits and super kernels on the nodes of a graph
gear_dims      sizes that come again
user_lines     lines of the user's program, for messages
exact_shapes   packages for the shapes of one call
methods        methods that later processes replay
cache_entries  entries of the compile cache with a front end's own files
weights        weights of few bits, and weights moved out of memory
pages          attention over the pages of a server
machine        memory and temporary folders
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from .cache_entries import *
    from .exact_shapes import *
    from .gear_dims import *
    from .graphs import *
    from .machine import *
    from .marks import *
    from .methods import *
    from .pages import *
    from .user_lines import *
    from .weights import *

_HOMES = {
    "graphs": (
        "Description",
        "InputSource",
        "backend_has",
        "compile_graph",
        "complete_nodes",
        "configure",
        "decompositions",
        "define_operator",
        "input_labels",
        "is_recording",
        "list_program",
        "lowered_operators",
        "run_eagerly",
        "trace",
        "traced_whole",
    ),
    "marks": (
        "RECORD",
        "SUPER_KERNEL_OPTIONS",
        "WAIT",
        "WAIT_EVENT",
        "WAIT_TAG",
        "Marks",
        "add_mark_resolver",
        "drop_super_kernel",
        "is_order_operator",
        "is_own_trace",
        "is_traced",
        "is_wait_result",
        "read_super_kernel_option",
        "set_marks",
        "stream_of",
        "unbroken_scope",
        "wait_if_computed",
    ),
    "user_lines": (
        "UserLine",
        "find_user_line",
        "hide_frames",
        "user_line",
    ),
    "gear_dims": (
        "MOST_GEAR_COMBINATIONS",
        "GearDim",
        "attach_gears",
        "find_gears",
        "guard_gears",
        "size_hint",
    ),
    "exact_shapes": (
        "ExactShapes",
        "StaticPackage",
        "copy_package",
    ),
    "methods": (
        "CachePolicy",
        "CachedMethod",
        "add_index_name",
        "check_method",
        "code_digest",
        "readable_cache",
    ),
    "cache_entries": (
        "CHATS",
        "CHAT_PACKAGE",
        "ROUNDINGS",
        "CacheEntry",
        "cache_folder",
        "find_entry",
        "keep_cache_small",
        "tensor_key",
    ),
    "weights": (
        "ParameterFile",
        "dequantized",
        "drop_moved_pages",
        "move_out_of_memory",
    ),
    "pages": ("attend_pages",),
    "machine": (
        "collector_at_rest",
        "gather_huge_pages",
        "peak_memory",
        "require_memory",
        "scratch_folder",
    ),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> _Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(_importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
