"""Records the arguments of each operator of a graph as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode

from ..dump.picture import type_of

_DTYPES = {
    torch.float32: "float",
    torch.float64: "double",
}
_FORMAT = "ND"


@dataclasses.dataclass(frozen=True)
class Record:
    """The call of one operator. `has_kernel`: whether it computes something; a view
    does not."""

    file: str
    content: dict[str, Any]
    has_kernel: bool

    @property
    def text(self) -> str:
        return json.dumps(self.content, indent=4, sort_keys=True)

    @property
    def key(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def record(module: torch.fx.GraphModule, arguments: Sequence[Any]) -> list[Record]:
    """The operators of a call with these arguments, in order. Fake tensors trace them."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = _Recorder(module)
    values = [
        mode.from_tensor(value, static_shapes=True)
        if isinstance(value, torch.Tensor)
        else value
        for value in arguments
    ]
    with mode, torch.no_grad():
        recorder.run(*values)
    return recorder.records


class _Recorder(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.records: list[Record] = []

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        if isinstance(target, OpOverload) and target.namespace != "air":
            self._add(target, args, kwargs, result)
        return result

    def _add(self, target: OpOverload, args: Any, kwargs: Any, result: Any) -> None:
        names = [spec.name for spec in target._schema.arguments]
        given = dict(zip(names, args)) | dict(kwargs)
        inputs = [t for value in given.values() for t in _tensors(value)]
        outputs = _tensors(result)
        if not outputs:
            return
        kind = type_of(target._schema.name.partition("::")[2])
        content = {
            "op_type": kind,
            "operator": str(target),
            "inputs": [_describe(tensor) for tensor in inputs],
            "outputs": [_describe(tensor) for tensor in outputs],
            "attrs": {
                name: _plain(value)
                for name, value in given.items()
                if not _tensors(value)
            },
        }
        first = (inputs or outputs)[0]
        dims = [str(size) for size in first.shape]
        words = [kind, _dtype(first), _FORMAT, *dims, str(len(self.records))]
        self.records.append(
            Record(f"{'_'.join(words)}.json", content, _computes(target))
        )


def _computes(target: OpOverload) -> bool:
    return not target.is_view


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _dtype(tensor: torch.Tensor) -> str:
    return _DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": [int(size) for size in tensor.shape],
        "format": _FORMAT,
        "dtype": _dtype(tensor),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
