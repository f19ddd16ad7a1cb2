"""torch_npu for hosts without an NPU: `npu` is another name of the host's device.

A module, not a package: beside a real torch_npu the import system takes the
real one.
"""

from torchair import _npu

__all__ = ["dynamo", "npu", "npu_fusion_attention"]
__version__ = "0.1.0"

npu, dynamo = _npu.install()


def npu_fusion_attention(*_args: object, **_options: object) -> None:
    """Here for those who import it when they find torch_npu, transformers for one.

    Raises NotImplementedError.
    """
    raise NotImplementedError(
        "torch_npu.npu_fusion_attention needs an NPU; on this host use"
        " torch.nn.functional.scaled_dot_product_attention"
    )
