"""The private name of torchair.ge_concrete_graph, which converters in public code import."""

import sys

from ..ge_concrete_graph import fx2ge_converter, ge_apis, ge_graph, utils
from . import supported_declaration

__all__ = [
    "fx2ge_converter",
    "ge_apis",
    "ge_graph",
    "supported_declaration",
    "utils",
]

for _module in (fx2ge_converter, ge_apis, ge_graph, utils):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
