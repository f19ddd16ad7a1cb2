"""torch_npu for hosts without an NPU: `npu` is another name of the host's device.

This is a module and not a package: if a real torch_npu is installed beside it, the
import system finds the real one."""

import sys as _sys
from typing import NoReturn as _NoReturn

import torch

from anabranch.extension import hide_frames as _hide_frames
from torchair._impl.device import contrib, distributed, profiler, testing
from torchair._impl.device.install import install as _install
from torchair._impl.operators import published as _published
from torchair._impl.operators.element_types import ELEMENT_NUMBERS as _ELEMENT_NUMBERS
from torchair._impl.operators.memory.formats import Format
from torchair._impl.operators.published import *
from torchair._impl.surface.publish import missing as _missing
from torchair._impl.surface.publish import publish as _publish

_hide_frames(__file__)

__all__ = [
    "Format",
    "atb",
    "contrib",
    "distributed",
    "dynamo",
    "npu",
    "profiler",
    "testing",
]
__all__ += _published.__all__
__all__ += list(_ELEMENT_NUMBERS)
__version__ = "0.1.0"

npu, dynamo = _install()
# Numbers of dtypes that PyTorch does not have.
globals().update(_ELEMENT_NUMBERS)
# Scripts call operators with an underscore by these names too.
globals().update(
    {
        name: getattr(namespace, name)
        for namespace in (torch.ops.npu, torch.ops.atb)
        for name in dir(namespace)
        if name[:5] == "_npu_"
    }
)
atb = torch.ops.atb
_publish(_sys.modules[__name__])


def __getattr__(name: str) -> _NoReturn:
    """AttributeError that names what there is like it."""
    raise AttributeError(_missing(name, globals()))
