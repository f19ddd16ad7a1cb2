"""An operator of torch_npu is defined once: its schema, its signature and its publication
follow from its function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import pytest
import torch
from torch import Tensor

import torch_npu
from torchair._impl.operators import published
from torchair._impl.operators.definition import COMPOSITIONS
from torchair._impl.operators.schema import (
    Reserved,
    Written,
    arguments_of,
    reserved_arguments,
    schema_of,
)


def all_types(
    x: Tensor,
    y: Tensor | None,
    n: int,
    kind: torch.dtype,
    *,
    sizes: Annotated[Sequence[int], "int[2]"] = (),
    flags: list[bool] | None = None,
    mode: str = "half",
    scale: float = 1e-6,
    other: Reserved[int | None] = None,
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError


def writes(key: Written, value: Written, at: Tensor) -> None:
    raise NotImplementedError


def in_place(x: Written, at: Tensor) -> Written:
    raise NotImplementedError


@dataclass
class Shared:
    x: Tensor
    lengths: Annotated[list[int], "SymInt[]"]
    _: KW_ONLY
    mode: str | None = None


@dataclass
class Into(Shared):
    n: int
    _: KW_ONLY
    out: Written


def test_arguments_that_forms_share() -> None:
    """A class that adds to another one's arguments puts its own after them."""
    text = "(Tensor x, SymInt[] lengths, *, str? mode=None)"
    assert arguments_of(Shared) == text
    text = "(Tensor x, SymInt[] lengths, int n, *, str? mode=None, Tensor(a!) out)"
    assert arguments_of(Into) == text


@pytest.mark.parametrize(
    "function, text",
    [
        (
            all_types,
            (
                "(Tensor x, Tensor? y, int n, ScalarType kind, *, int[2] sizes=[],"
                " bool[]? flags=None, str mode='half', float scale=1e-06,"
                " int? other=None) -> (Tensor, Tensor)"
            ),
        ),
        (writes, "(Tensor(a!) key, Tensor(b!) value, Tensor at) -> ()"),
        (in_place, "(Tensor(a!) x, Tensor at) -> Tensor(a!)"),
    ],
)
def test_schemas(function, text) -> None:
    assert schema_of(function) == text
    torch._C.parse_schema(f"a{text}")


def test_reserved_arguments() -> None:
    assert reserved_arguments(all_types) == {"other": None}
    assert reserved_arguments(writes) == {}


def test_operators_of_the_boost_library() -> None:
    """torch_npu.atb has all of them, torch_npu those with an underscore."""
    names = {
        overload._schema.name.removeprefix("atb::")
        for overload in COMPOSITIONS
        if overload.namespace == "atb"
    }
    assert "_npu_rotary_embedding" in names
    for name in names:
        found = getattr(torch.ops.atb, name)
        assert getattr(torch_npu.atb, name) is found
        assert getattr(torch_npu, name, None) is (found if name[0] == "_" else None)


def test_types_that_no_schema_has() -> None:
    def wrong(x: bytes) -> Tensor:
        raise NotImplementedError

    with pytest.raises(KeyError):
        schema_of(wrong)


def test_every_operator_is_published() -> None:
    public = {
        overload._schema.name.removeprefix("npu::")
        for overload in COMPOSITIONS
        if re.match("npu::[^_]", overload._schema.name)
    }
    assert public <= set(published.__all__) <= set(torch_npu.__all__)
    for name in public - {"npu_quant_matmul"}:  # a compiled call adds the blocks
        assert getattr(torch_npu, name) is getattr(torch.ops.npu, name)


@pytest.mark.parametrize("name", published.__all__)
def test_signatures_and_help(name) -> None:
    """What callers see: the schema's arguments with their defaults, and a text."""
    function = getattr(torch_npu, name)
    assert inspect.getdoc(function)
    parameters = inspect.signature(function).parameters
    packet = getattr(torch.ops.npu, name, None)
    if packet is None:
        return
    for argument in packet.default._schema.arguments:
        shown = parameters["input" if argument.name == "self" else argument.name]
        assert (shown.kind is shown.KEYWORD_ONLY) == argument.kwarg_only
        if argument.has_default_value():
            assert shown.default == argument.default_value


def test_private_names() -> None:
    """Scripts call these through torch_npu; `import *` leaves them out."""
    for name in (
        "_npu_dropout_gen_mask",
        "_npu_fused_infer_attention_score_get_max_workspace",
        "_npu_fused_infer_attention_score_v2_get_max_workspace",
    ):
        assert getattr(torch_npu, name) is getattr(torch.ops.npu, name)
        assert name not in torch_npu.__all__
