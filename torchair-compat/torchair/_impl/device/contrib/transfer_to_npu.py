"""`from torch_npu.contrib import transfer_to_npu`: makes `cuda` a name of the NPU too.

Code for torch.cuda then finds torch.npu instead and runs on the host. RuntimeError: the
machine has a GPU, which this would hide."""

from __future__ import annotations

import torch

from torchair._impl.device import names

__all__: list[str] = []


def _transfer() -> None:
    if torch.cuda.is_available():
        raise RuntimeError(
            "torch_npu.contrib.transfer_to_npu would hide this machine's GPU: it is for"
            " machines without one"
        )
    names.add_name("cuda")
    npu = torch.npu  # type: ignore[attr-defined]
    for name in npu.__all__:
        setattr(torch.cuda, name, getattr(npu, name))
    torch.cuda.CUDAGraph = npu.NPUGraph  # type: ignore[misc]
    torch.Tensor.cuda = torch.Tensor.npu  # type: ignore[attr-defined]
    torch.nn.Module.cuda = torch.nn.Module.npu  # type: ignore[attr-defined]


_transfer()
