"""torch_npu for hosts without an NPU: `npu` is another name of the host's device.

A module, not a package: beside a real torch_npu the import system takes the
real one. Its submodules live in torchair/_npu.
"""

from torchair import _npu

__all__ = ["npu"]
__version__ = "0.1.0"
__path__ = [*_npu.__path__]

npu = _npu.install()
