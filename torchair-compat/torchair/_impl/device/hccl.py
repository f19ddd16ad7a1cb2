"""Makes "hccl", the backend's name on NPUs, a name of gloo in torch.distributed."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

__all__ = ["install"]


def _make(given: Any, _: Any) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_default_device()]
    options._timeout = given.timeout
    options.group_name = given.group_id
    return dist.ProcessGroupGloo(
        given.store, given.group_rank, given.group_size, options
    )


def _name(backend: Any, rank: int, *_: Any) -> str:
    """The name of the group that operators of torch_npu get."""
    return str(backend.options.group_name)


def install() -> None:
    """Registers the backend, for init_process_group("hccl"). Its groups have
    `get_hccl_comm_name(rank)`."""
    if not dist.is_available() or not hasattr(dist, "ProcessGroupGloo"):
        return
    dist.ProcessGroupGloo.get_hccl_comm_name = _name
    if "hccl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hccl", _make, extended_api=True, devices=["cpu"])
