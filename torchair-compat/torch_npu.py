"""torch_npu for hosts without an NPU: `npu` is another name of the host's device.

A module, not a package: beside a real torch_npu the import system takes the
real one.
"""

from torchair import _npu

__all__ = ["dynamo", "npu"]
__version__ = "0.1.0"

npu, dynamo = _npu.install()
