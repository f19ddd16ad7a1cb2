"""npu_quant_matmul has the bits of a model in NumPy, for every row of dtypes."""

import random

import numpy as np
import pytest
import torch

import torch_npu
import torchair

bf, f16, f32 = torch.bfloat16, torch.float16, torch.float32
i8, i32, i64 = torch.int8, torch.int32, torch.int64

# (scale, offset, bias, pertoken_scale) -> result
ROWS = [(s, None, b, None, f16) for s in (i64, f32) for b in (i32, None)]
ROWS += [
    (s, o, b, None, i8) for s in (i64, f32) for o in (f32, None) for b in (i32, None)
]
ROWS += [
    (s, None, b, p, bf)
    for s in (f32, bf)
    for b in (i32, bf, f16, f32, None)
    for p in (f32, None)
]
ROWS += [(f32, None, b, f32, f16) for b in (i32, bf, f16, f32, None)]
ROWS += [(s, None, b, None, i32) for s in (f32, bf) for b in (i32, None)]
BATCHES = [
    ((), ()),
    ((2,), ()),
    ((2,), (2,)),
    ((4, 1), (2,)),
    ((), (3,)),
    ((2, 1, 3), (2, 1)),
    ((2, 2, 2, 2), (2,)),
]


def wide(tensor):
    return tensor.to(f32).numpy()


def model(x1, x2, scale, offset, bias, token, kind):
    total = np.matmul(x1.numpy().astype(np.int64), x2.numpy().astype(np.int64))
    if bias is not None and bias.dtype == i32:
        total = total + bias.numpy()
    total = (total + 2**31) % 2**32 - 2**31
    if kind == i32:
        return torch.from_numpy(total.astype(np.int32))
    if scale.dtype == i64:
        code = scale.numpy().view(np.uint64)
        factor = (code & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
        shift = ((code >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int64)
        shift = np.where(shift >= 256, shift - 512, shift).astype(np.float32)
        if offset is None and kind == i8:
            offset = torch.from_numpy(shift)
    else:
        factor = wide(scale)
    values = total.astype(np.int32).astype(np.float32) * factor
    if token is not None:
        values = values * wide(token)[:, None]
    if bias is not None and bias.dtype != i32:
        values = values + wide(bias)
    if offset is not None:
        values = values + wide(offset)
    assert values.dtype == np.float32
    if kind == i8:
        values = np.clip(np.rint(values), -128, 127).astype(np.int8)
        return torch.from_numpy(values)
    return torch.from_numpy(values).to(kind)


def strided(tensor, choice):
    """The same values in four layouts: contiguous, with steps, transposed, with an offset."""
    if choice == 0:
        return tensor
    if choice == 1:
        found = tensor.new_zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)[
            ..., 1::2
        ]
        return found.copy_(tensor)
    if choice == 2:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    found = tensor.new_zeros(tensor.shape[0] + 3, *tensor.shape[1:])[2:-1]
    return found.copy_(tensor)


def operands(pick):
    """Ordinary operands, and those of the largest sums: 4,200 products of -128 exceed 2**24."""
    before1, before2 = pick.choice(BATCHES)
    m, n = pick.choice([1, 2, 5, 17, 32]), pick.choice([1, 3, 8, 19, 65])
    if pick.random() < 0.3:
        k = 4200
        x1, x2 = (
            torch.full(shape, pick.choice([-128, 127]), dtype=i8)
            for shape in ((*before1, m, k), (*before2, k, n))
        )
        x2[..., 0, :] = 3
    else:
        k = pick.choice([1, 3, 16, 33, 100])
        x1 = torch.randint(-128, 128, (*before1, m, k), dtype=i8)
        x2 = torch.randint(-128, 128, (*before2, k, n), dtype=i8)
    return x1, x2, np.broadcast_shapes(before1, before2)


def vectors(pick, row, m, n, batch):
    kind_of_scale, kind_of_offset, kind_of_bias, kind_of_token, _ = row
    count = pick.choice([1, n])
    scale = torch.randn(count) * 10.0 ** pick.choice([-4, -2, 0])
    if kind_of_scale == i64:
        shift = torch.randint(-300, 300, (count,)).float()
        shift = pick.choice([None, shift])
        scale = torch_npu.npu_trans_quant_param(scale, shift, pick.choice([0, 1]))
    scale = scale.to(kind_of_scale)
    offset = torch.randn(pick.choice([1, n])) * 5 if kind_of_offset else None
    bias = None
    if kind_of_bias:
        each = len(batch) == 1 and pick.random() < 0.5
        shape = (batch[0], 1, n) if each else (n,)
        bias = torch.randint(-(2**20), 2**20, shape, dtype=i32)
        bias = bias if kind_of_bias == i32 else (bias / 2**18).to(kind_of_bias)
    return scale, offset, bias, torch.rand(m) if kind_of_token else None


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_products(number) -> None:
    pick = random.Random(number)
    row = ROWS[number]
    kind = row[-1]
    x1, x2, batch = operands(pick)
    more = vectors(pick, row, x1.shape[-2], x2.shape[-1], batch)
    wanted = model(x1, x2, *more, kind)
    x1, x2 = strided(x1, pick.randrange(4)), strided(x2, pick.randrange(4))
    if x2.dim() == 2 and pick.random() < 0.4:
        x2 = torch_npu.npu_format_cast(x2, 29)

    def run(x1, x2, scale, offset, bias, token):
        return torch_npu.npu_quant_matmul(
            x1,
            x2,
            scale,
            offset=offset,
            pertoken_scale=token,
            bias=bias,
            output_dtype=None if kind == i8 else kind,
        )

    compiled = torch.compile(
        run, backend=torchair.get_npu_backend(), dynamic=pick.random() < 0.5
    )
    for found in (run(x1, x2, *more), compiled(x1, x2, *more)):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("layout", ["plain", "transposed", "expanded", "sliced"])
def test_products_of_any_layout_are_exact(m, k, n, layout) -> None:
    """Our products are exact for all strides and for k = 0. PyTorch's product of integers is
    wrong for some strides, and refuses k = 0."""
    x2 = {
        "plain": lambda: torch.randint(-128, 128, (k, n)),
        "transposed": lambda: torch.randint(-128, 128, (n, k)).t(),
        "expanded": lambda: torch.randint(-128, 128, (1, n)).expand(k, n),
        "sliced": lambda: torch.randint(-128, 128, (n, k + 3))[:, :k].t(),
    }[layout]()
    x1 = torch.randint(-128, 128, (k, m)).t()
    wide = x1.double() @ x2.double()
    scale = torch.ones(1)
    x2 = (
        x2.to(torch.int8)
        if layout != "expanded"
        else x2[:1].to(torch.int8).expand(k, n)
    )
    arguments = (x1.to(torch.int8), x2, scale)
    found = torch_npu.npu_quant_matmul(*arguments, output_dtype=torch.int32)
    assert torch.equal(found.double(), wide)


def test_a_product_of_nothing_is_compiled() -> None:
    def function(x1, x2, scale):
        return torch_npu.npu_quant_matmul(x1, x2, scale, output_dtype=torch.bfloat16)

    x1, x2 = torch.zeros(3, 0, dtype=torch.int8), torch.zeros(0, 4, dtype=torch.int8)
    found = torch.compile(function, backend=torchair.get_npu_backend())(
        x1, x2, torch.ones(4)
    )
    assert torch.equal(found, torch.zeros(3, 4, dtype=torch.bfloat16))
