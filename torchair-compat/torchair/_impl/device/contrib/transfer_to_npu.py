"""`from torch_npu.contrib import transfer_to_npu`: makes `cuda` a name of the NPU too.

Code for torch.cuda then finds torch.npu instead and runs on the host, and groups of
"nccl" are groups of "hccl". RuntimeError: the machine has a GPU, which this would hide."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._dynamo import trace_rules
from torch._dynamo.variables.user_defined import UserDefinedClassVariable

from torchair._impl.device import names

__all__: list[str] = []


def _transfer() -> None:
    if torch.cuda.is_available():
        raise RuntimeError(
            "torch_npu.contrib.transfer_to_npu would hide this machine's GPU: it is for"
            " machines without one"
        )
    UserDefinedClassVariable._in_graph_classes()  # Dynamo keeps PyTorch's own classes
    names.add_name("cuda")
    npu = torch.npu  # type: ignore[attr-defined]
    for name in npu.__all__:
        setattr(torch.cuda, name, getattr(npu, name))
    _have_traced({*npu.__all__, "CUDAGraph"})
    torch.cuda.is_available = _is_available
    torch.cuda.CUDAGraph = npu.NPUGraph  # type: ignore[misc]
    torch.Tensor.cuda = torch.Tensor.npu  # type: ignore[attr-defined]
    torch.nn.Module.cuda = torch.nn.Module.npu  # type: ignore[attr-defined]
    if dist.is_available():
        _transfer_groups()


def _have_traced(replaced: set[str]) -> None:
    """Has Dynamo trace into what stands in torch.cuda now. Its table says by names that
    PyTorch's own functions are calls of a graph."""
    for rules in trace_rules.torch_name_rule_map:
        for name in replaced:
            rules.pop(f"torch.cuda.{name}", None)
    trace_rules.clear_lru_cache()


def _is_available() -> bool:
    """True for the program. PyTorch itself asks for a GPU that it can call, and there is
    none."""
    if torch.compiler.is_dynamo_compiling():
        return True
    caller = sys._getframe(1).f_globals.get("__name__", "")
    return not (caller == "torch" or caller.startswith("torch."))


def _transfer_groups() -> None:
    modules = (dist, dist.distributed_c10d)
    for name in ("init_process_group", "new_group"):
        function = _with_hccl(getattr(dist, name))
        for module in modules:
            setattr(module, name, function)
    for module in modules:
        module.is_nccl_available = lambda: True  # type: ignore[attr-defined]


def _with_hccl(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reads "nccl" in the name of a backend as "hccl"."""

    def translated(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.replace("nccl", "hccl").replace("cuda:", "npu:")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "backend" in kwargs:
            kwargs["backend"] = translated(kwargs["backend"])
        # An address of the group's meeting is a text too, and names no backend.
        known = ("nccl", "cuda:nccl", "cpu:gloo,cuda:nccl")
        given = [translated(a) if str(a) in known else a for a in args]
        return original(*given, **kwargs)

    return call


_transfer()
