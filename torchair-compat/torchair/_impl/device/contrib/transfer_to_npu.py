"""`from torch_npu.contrib import transfer_to_npu`: `cuda` is a name of the NPU too.

Code that was written for torch.cuda then finds torch.npu in its place, so it runs on
the host. Raises RuntimeError where there is a GPU: it would be hidden.
"""

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
