"""Rotary embeddings in every layout, against float64; operators whose first argument pages
call `input`."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

B, S, N, KV, D = 2, 3, 4, 2, 16
# From (batch, length, heads, width) to each layout.
LAYOUTS = {
    "BSND": lambda x: x,
    "BSH": lambda x: x.flatten(2) if x.shape[2] > 1 else x,
    "SBND": lambda x: x.transpose(0, 1).contiguous(),
    "BNSD": lambda x: x.transpose(1, 2).contiguous(),
    "TND": lambda x: x.flatten(0, 1),
}


def reference(x, cos, sin, mode):
    """In float64, rounded once."""
    wide = x.double()
    if mode == "half":
        left, right = wide.chunk(2, -1)
        turned = torch.cat((-right, left), -1)
    else:
        turned = torch.stack((-wide[..., 1::2], wide[..., ::2]), -1).flatten(-2)
    return (wide * cos.double() + turned * sin.double()).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, mode, dtype) -> None:
    """Values of each layout; eager code and graphs write no argument."""
    turn = LAYOUTS[layout]
    query, key = (torch.randn(B, S, n, D).to(dtype) for n in (N, KV))
    cos, sin = (torch.rand(B, S, 1, D).to(dtype) for _ in range(2))
    given = [turn(t) for t in (query, key, cos, sin)]
    wanted = [turn(reference(x, cos, sin, mode)) for x in (query, key)]

    def function(*tensors):
        return torch_npu.npu_apply_rotary_pos_emb(*tensors, layout, mode)

    close = {"atol": 4 * torch.finfo(dtype).eps, "rtol": 4 * torch.finfo(dtype).eps}
    for run in (function, compiled(function)):
        kept = [t.clone() for t in given]
        torch.testing.assert_close(list(run(*kept)), wanted, **close)
        assert all(map(torch.equal, kept, given))


def test_four_dimensions_as_bsh() -> None:
    query, cos, sin = torch.randn(B, S, N, D), *torch.rand(2, B, S, 1, D)
    found = torch_npu.npu_apply_rotary_pos_emb(query, query, cos, sin, "BSH")
    wanted = torch_npu.npu_rotary_mul(query, cos, sin)
    assert all(torch.equal(one, wanted) for one in found)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_wide_tables(dtype) -> None:
    """Tables of float32: the result has the dtype of the input, rounded once."""
    x, cos, sin = torch.randn(B, S, N, D).to(dtype), *torch.rand(2, B, S, 1, D)
    wanted = reference(x, cos, sin, "half")
    for run in (torch_npu.npu_rotary_mul, compiled(torch_npu.npu_rotary_mul)):
        found = run(x, cos, sin)
        close = {"atol": 1e-5, "rtol": torch.finfo(dtype).eps}
        torch.testing.assert_close(found, wanted, **close)


@pytest.mark.parametrize("shared", ["nothing", "length", "batch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_interleaved_halves(dtype, shared) -> None:
    """npu_interleave_rope, with tables for each row, or for several."""
    x = torch.randn(B, N, S, D).to(dtype)
    sizes = {"nothing": (B, S), "length": (B, 1), "batch": (1, S)}[shared]
    cos, sin = (torch.rand(sizes[0], 1, sizes[1], D).to(dtype) for _ in range(2))
    wide = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    wanted = reference(wide, cos, sin, "half")
    eps = torch.finfo(dtype).eps
    for run in (torch_npu.npu_interleave_rope, compiled(torch_npu.npu_interleave_rope)):
        found = run(x, cos, sin)
        torch.testing.assert_close(found, wanted, atol=4 * eps, rtol=4 * eps)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": torch.ones(2, 3, 8)}, "x must be .b, n, s, even d., got .2, 3, 8."),
        ({"x": torch.ones(2, 3, 4, 7)}, "x must be .b, n, s, even d."),
        ({"cos": torch.ones(2, 3, 4, 8)}, "cos must be .2 or 1, 1, 4 or 1, 8., got"),
        ({"sin": torch.ones(3, 1, 4, 8)}, "sin must be"),
        ({"sin": torch.ones(2, 1, 4, 8).half()}, "sin must be float32"),
    ],
)
def test_interleaved_halves_that_do_not_fit(change, text) -> None:
    table = torch.ones(2, 1, 4, 8)
    given = {"x": torch.ones(2, 3, 4, 8), "cos": table, "sin": table} | change
    with pytest.raises(RuntimeError, match=f"npu_interleave_rope: {text}"):
        torch_npu.npu_interleave_rope(**given)


X = torch.randn(4, 8)
INPUTS = {
    "npu_gelu": (X, {}),
    "npu_fast_gelu": (X, {}),
    "npu_rms_norm": (X, {"gamma": X[0]}),
    "npu_rotary_mul": (X, {"r1": X, "r2": X}),
    "npu_prefetch": (X, {"dependency": X, "max_size": 8}),
    "npu_scatter_nd_update": (
        X,
        {"indices": torch.tensor([[1]]), "updates": torch.ones(1, 8)},
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_first_argument_by_name(name) -> None:
    """`input=`, `self=` and the position are the same, also in graphs."""
    x, others = INPUTS[name]
    operator = getattr(torch_npu, name)

    def function(x):
        made = operator(input=x, **others)
        return x + 1 if made is None else made

    wanted = operator(x, **others)
    torch.testing.assert_close(operator(self=x, **others), wanted)
    torch.testing.assert_close(operator(input=x, **others), wanted)
    found = compiled(function)(x)
    torch.testing.assert_close(found, x + 1 if wanted is None else wanted)


def test_in_place_by_name() -> None:
    x, one = torch.zeros(4, 2), torch.ones(1, 2)
    made = torch_npu.npu_scatter_nd_update_(
        input=x, indices=torch.tensor([[1]]), updates=one
    )
    assert made.data_ptr() == x.data_ptr()
    assert torch.equal(x[1], one[0])
