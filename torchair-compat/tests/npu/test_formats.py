"""Matrices in FRACTAL_NZ have blocks, and products read the blocks."""

from __future__ import annotations

import copy
import functools

import pytest
import torch

import anabranch
import torch_npu
import torchair
from pictures import compiled
from torchair._impl.operators.memory import formats
from torchair._impl.operators.memory.formats import (
    blocks_of,
    from_blocks,
    has_blocks,
    to_blocks,
)
from torchair._impl.operators.quantisation.integers import unpack_int4

WORDS = {torch.int8: 4, torch.bfloat16: 2, torch.float16: 1}
ONE = torch.ones(1)


def matrix(rows: int, columns: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(rows, columns).to(dtype)
    return torch.randint(-128, 128, (rows, columns)).to(dtype)


def in_blocks(tensor: torch.Tensor) -> torch.Tensor:
    return torch_npu.npu_format_cast(tensor, 29)


def reads_blocks(weight: torch.Tensor) -> bool:
    """Whether a graph has read the blocks of the weight's current values."""
    made = formats._blocks.get(weight, {})
    return any(version == weight._version for version, _ in made.values())


@pytest.mark.parametrize("dtype", list(WORDS))
@pytest.mark.parametrize(("k", "n"), [(64, 64), (70, 130), (3, 200), (129, 5)])
def test_blocks_hold_what_the_tensor_holds(dtype, k, n) -> None:
    values, word = matrix(k, n, dtype), WORDS[dtype]
    blocks = to_blocks(values)
    inner = (word,) if word > 1 else ()
    assert blocks.shape == (-(-n // 64), -(-k // word), 64, *inner)
    assert torch.equal(from_blocks(blocks, k, n), values)
    assert torch.count_nonzero(blocks) == torch.count_nonzero(values)
    place = (2 % word,) if word > 1 else ()
    assert blocks[((n - 1) // 64, 2 // word, (n - 1) % 64, *place)] == values[2, n - 1]


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_read_blocks_that_are_never_stale(rows) -> None:
    weight, x = in_blocks(matrix(70, 130)), matrix(rows, 70)

    def product(x, weight):
        return torch_npu.npu_quant_matmul(x, weight, ONE, output_dtype=torch.int32)

    run = compiled(product)
    anabranch.counters.reset()
    assert torch.equal(run(x, weight).long(), x.long() @ weight.long())
    assert anabranch.counters.kernels == 1  # no kernel packs the weight
    weight[3:9] = 7
    assert torch.equal(run(x, weight).long(), x.long() @ weight.long())
    other = in_blocks(matrix(70, 130))
    assert torch.equal(run(x, other).long(), x.long() @ other.long())
    plain = other.clone()
    assert torch.equal(run(x, plain).long(), x.long() @ plain.long())


@pytest.mark.parametrize("along_k", [False, True])
def test_products_of_four_bits_read_blocks_of_eight(along_k) -> None:
    """Weights packed along their rows have blocks of int8; the graph unpacks others."""
    x = torch.randint(-(2**31), 2**31, (6, 8)).to(torch.int32)
    shape = (8, 130) if along_k else (64, 16)
    weight = in_blocks(torch.randint(-(2**31), 2**31, shape).to(torch.int32))
    scale = torch.full((weight.shape[1] * (1 if along_k else 8),), 2.0**-10)

    def product(x, weight):
        return torch_npu.npu_quant_matmul(x, weight, scale, output_dtype=torch.float16)

    run = compiled(product)
    for _ in range(2):
        wide = unpack_int4(weight.t()).t() if along_k else unpack_int4(weight)
        exact = unpack_int4(x).double() @ wide.double()
        wanted = (exact.float() * scale).half()
        assert torch.equal(run(x, weight), wanted)
        assert torch.equal(product(x, weight), wanted)
        weight[1] = 77


class Layers(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.up = torch.nn.Linear(70, 130, dtype=dtype)
        self.down = torch.nn.Linear(130, 70, bias=False, dtype=dtype)

    def forward(self, x):
        return self.down(self.up(x).relu())


def near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Allows the distance from float64 of f32 sums that are rounded to a half once or twice."""
    atol = torch.finfo(found.dtype).eps * 4 * wanted.abs().max().item()
    torch.testing.assert_close(found.double(), wanted, atol=atol, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 70), (40, 70), (2, 9, 70)])
def test_linear_layers_read_blocks(dtype, shape) -> None:
    model = Layers(dtype).npu()
    exact = copy.deepcopy(model).double()
    torchair.use_internal_format_weight(model)
    x = torch.randn(shape).to(dtype)
    run = compiled(model)
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            anabranch.counters.reset()
            near(run(x), exact(x.double()))
            assert reads_blocks(model.up.weight) and reads_blocks(model.down.weight)
            assert not anabranch.counters.fallback_calls
            assert not anabranch.counters.eager_graphs
    with torch.no_grad():
        for layer, other in ((model.up, exact.up), (model.down, exact.down)):
            layer.weight[1:7] = 0.5
            other.weight[1:7] = 0.5
        near(run(x), exact(x.double()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_of_halves_pack_nothing(dtype, rows) -> None:
    weight, x = in_blocks(matrix(96, 130, dtype)), matrix(rows, 96, dtype)
    more = matrix(1, 130, dtype)[0]
    for function in (torch.mm, torch.matmul, functools.partial(torch.addmm, more)):
        torch._dynamo.reset()
        run = compiled(lambda x, w, of=function: of(x, w))
        anabranch.counters.reset()
        added = more.double() if function not in (torch.mm, torch.matmul) else 0
        near(run(x, weight), x.double() @ weight.double() + added)
        assert anabranch.counters.kernels == 1, function
        assert reads_blocks(weight)
        weight[2] = 0.25
        plain = matrix(96, 130, dtype)
        near(run(x, plain), x.double() @ plain.double() + added)


def test_a_weight_as_it_is_and_transposed() -> None:
    """A weight and its transpose have blocks of their own. A left operand has none."""
    weight = in_blocks(matrix(64, 64, torch.bfloat16))

    def function(x, weight, y, other):
        return weight @ x, y @ weight.t(), weight.t() + 1, other @ weight

    x, y = matrix(64, 5, torch.bfloat16), matrix(3, 64, torch.bfloat16)
    other = matrix(3, 64, torch.bfloat16)
    found = compiled(function)(x, weight, y, other)
    wide = weight.double()
    near(found[0], wide @ x.double())
    near(found[1], y.double() @ wide.t())
    near(found[3], other.double() @ wide)
    assert set(formats._blocks[weight]) == {True, False}
    assert torch.equal(found[2], weight.t() + 1)


def test_writes_of_the_graph_come_after_the_blocks() -> None:
    weight, x = in_blocks(matrix(64, 70, torch.bfloat16)), matrix(3, 64, torch.bfloat16)
    run = compiled(lambda x, w: (x @ w, w.mul_(2)))
    for _ in range(3):
        wanted = x.double() @ weight.double()
        near(run(x, weight)[0], wanted)


def test_blocks_of_what_has_none() -> None:
    for tensor in (matrix(4, 8), torch.zeros(2, 4, 8, dtype=torch.int8)):
        assert tensor._npu_blocks is None
    for tensor in (torch.randn(4, 8), torch.randn(2, 4, 8).bfloat16()):
        assert not has_blocks(in_blocks(tensor))
    assert torch_npu.npu_format_cast(matrix(4, 8), 2)._npu_blocks is None
    with torch.inference_mode():
        assert in_blocks(matrix(4, 8))._npu_blocks is None


def test_copies_have_blocks_of_their_own() -> None:
    weight = in_blocks(matrix(8, 8))
    weight[0] = 1
    blocks_of(weight, transposed=False)
    other = copy.deepcopy(weight)
    other[0] = 5
    assert torch.equal(from_blocks(other._npu_blocks, 8, 8), other)


def test_a_view_has_the_format_of_its_tensor() -> None:
    weight = in_blocks(matrix(64, 32))
    assert torch_npu.get_npu_format(weight.t()) == 29
    assert torch_npu.get_npu_format(matrix(64, 32).t()) == 2
