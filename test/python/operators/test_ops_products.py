"""Our kernels for products, rows, attention, convolutions and pools equal eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from checking import check, compiled, exported_for, ints, rand

import anabranch

sdpa = F.scaled_dot_product_attention
MASK = torch.ones(5, 7).tril(2).bool()
MASK[2] = False


def repeat_kv(x, times):
    """Repeats each head, as models of transformers do."""
    batch, heads, length, size = x.shape
    wide = x[:, :, None].expand(batch, heads, times, length, size)
    return wide.reshape(batch, heads * times, length, size)


CASES = {
    "attention of integers with factors": (
        lambda q, k, v, a: sdpa(q, k.float() * a, v.float() * a),
        (
            rand(2, 4, 1, 8),
            *(ints(9, 2, 4, 8, 8).to(torch.int8) for _ in range(2)),
            rand(2, 1, 8, 1),
        ),
    ),
    "mm": (
        lambda x, y, b: (
            x @ y,
            torch.addmm(b, x, y),
            torch.addmm(b, x, y, beta=0.5, alpha=2.0),
            torch.addmm(b * float("nan"), x, y, beta=0),
        ),
        (rand(4, 6), rand(6, 3), rand(3)),
    ),
    "operands of one element": (
        lambda x, y: (
            x.expand(4, 6) @ y,
            y.t() @ x.expand(6, 5),
            x.expand(2, 4, 6) @ y,
        ),
        (rand(), rand(6, 3)),
    ),
    "transposed": (
        lambda x, y: (x.t() @ y, y.t() @ x, (x.t() @ y).t() @ x.t()),
        (rand(6, 4), rand(6, 3)),
    ),
    "bmm": (
        lambda x, y, b: (x @ y, torch.baddbmm(b, x, y, alpha=0.5)),
        (rand(2, 4, 6), rand(2, 6, 3), rand(2, 4, 3)),
    ),
    "vectors": (
        lambda x, y, b: (x @ y, y @ y, torch.addmv(b, x, y)),
        (rand(4, 6), rand(6), rand(4)),
    ),
    "einsum": (
        lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y),
        (rand(2, 3, 4, 5), rand(2, 3, 6, 5)),
    ),
    "integers": (lambda x, y: x @ y, (ints(9, 4, 6), ints(9, 6, 3))),
    "nothing": (lambda x, y: x @ y, (rand(4, 0), rand(0, 3))),
    "linear": (
        lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0, 0], w, b)),
        (rand(2, 5, 7), rand(3, 7), rand(3)),
    ),
    "softmax": (
        lambda x: (
            x.softmax(-1),
            x.softmax(1),
            x.log_softmax(0),
            x[0, 0, 0].softmax(0),
        ),
        (rand(3, 5, 2),),
    ),
    "layer_norm": (
        lambda x, w, b: (F.layer_norm(x, (2,)), F.layer_norm(x, (5, 2), w, b)),
        (rand(3, 5, 2), rand(5, 2), rand(5, 2)),
    ),
    "rms_norm": (
        lambda x, w: (F.rms_norm(x, (8,), w, 1e-5), F.rms_norm(x, (8,))),
        (rand(3, 5, 8), rand(8)),
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 3, w, b),
        (rand(2, 6, 4, 5), rand(6), rand(6)),
    ),
    "batch_norm": (
        lambda x, w, b, m, v: F.batch_norm(x, m, v.abs(), w, b),
        (rand(2, 6, 4, 5), rand(6), rand(6), rand(6), rand(6)),
    ),
    "attention": (
        lambda q, k, v: (sdpa(q, k, v), sdpa(q, k, v, scale=0.3)),
        (rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 4)),
    ),
    "causal": (lambda q: sdpa(q, q, q, is_causal=True), (rand(2, 3, 5, 8),)),
    "masked": (
        lambda q, k, v, m, a: (sdpa(q, k, v, m), sdpa(q, k, v, a)),
        (rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8), MASK, rand(5, 7)),
    ),
    "hidden rows": (
        lambda q, k, v, m, a: (
            sdpa(q, k, v, a.masked_fill(~m, -torch.inf)),
            sdpa(q[:, :, :1], k, v, a.masked_fill(~m, -torch.inf)[2:3]),
        ),
        (rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8), MASK, rand(5, 7)),
    ),
    "grouped": (
        lambda q, k, v, m: (
            sdpa(q, k, v, enable_gqa=True),
            sdpa(q, k, v, m, enable_gqa=True),
        ),
        (rand(2, 6, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8), rand(2, 1, 5, 7)),
    ),
    "repeated heads": (
        lambda q, k, v, m: (
            sdpa(q, *(x.repeat_interleave(2, dim=1) for x in (k, v)), m),
            sdpa(q[:, :, :1], repeat_kv(k, 2), repeat_kv(v, 2)),
        ),
        (rand(2, 6, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8), rand(2, 1, 5, 7)),
    ),
    "decoding": (
        lambda q, k, v, m: (
            sdpa(q, k, v, enable_gqa=True),
            sdpa(q, k, v, m, enable_gqa=True),
            sdpa(q[:, :, :1], k, v, m > 0, enable_gqa=True),
            sdpa(q[:, :3], k, v[..., :6]),
        ),
        (rand(2, 6, 2, 8), rand(2, 3, 37, 8), rand(2, 3, 37, 8), rand(2, 1, 1, 37)),
    ),
    "conv2d": (
        lambda x, w, b: (
            F.conv2d(x, w, b),
            F.conv2d(x, w, None, stride=(2, 1), padding=(1, 2)),
            F.conv2d(x, w, b, dilation=2, padding=1),
        ),
        (rand(2, 4, 7, 9), rand(6, 4, 3, 2), rand(6)),
    ),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, padding=1),
        (rand(2, 4, 7), rand(6, 4, 3), rand(6)),
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w, padding=1),
        (rand(2, 2, 4, 4, 4), rand(3, 2, 3, 3, 3)),
    ),
    "transposed_conv": (
        lambda x, y, w, v, u, b: (
            F.conv_transpose2d(x, w, b, stride=2, padding=1),
            F.conv_transpose2d(x, w, None, (3, 2), (0, 2), (2, 1), dilation=(1, 3)),
            F.conv_transpose2d(x, w[:, :, :1, :1], b, stride=2),
            F.conv_transpose2d(x, v, None, padding=2, groups=4),
            F.conv_transpose1d(y, u, b, 3, 5, 2, groups=2),
            F.conv_transpose3d(x.unsqueeze(2), w.unsqueeze(2), b, 2, 1, 1),
        ),
        (
            rand(2, 4, 7, 9),
            rand(2, 4, 5),
            rand(4, 6, 3, 4),
            rand(4, 1, 3, 3),
            rand(4, 3, 4),
            rand(6),
        ),
    ),
    "pointwise_conv": (F.conv2d, (rand(2, 4, 7, 5), rand(6, 4, 1, 1), rand(6))),
    "grouped_conv": (
        lambda x, w, d: (
            F.conv2d(x, w, groups=2, padding=1),
            F.conv2d(x, d, groups=4, padding=1),
        ),
        (rand(2, 4, 7, 9), rand(6, 2, 3, 2), rand(4, 1, 3, 3)),
    ),
    "max_pool": (
        lambda x: (
            F.max_pool2d(x, 2),
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
        ),
        (rand(2, 3, 8, 10),),
    ),
    "avg_pool": (
        lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1)),
        (rand(2, 3, 8, 10),),
    ),
    "pools_of_volumes": (
        lambda x: (
            F.max_pool3d(x, (3, 2, 3), (2, 2, 1), (1, 1, 0), return_indices=True),
            F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
            F.max_pool3d(x[0], 3, 1, 1, dilation=(1, 2, 1)),
            F.avg_pool3d(x, (2, 3, 2)),
            F.avg_pool3d(x, 3, 2, 1),
        ),
        (rand(2, 3, 4, 7, 10),),
    ),
    "global_pool": (lambda x: F.adaptive_avg_pool2d(x, 1), (rand(2, 3, 8, 10),)),
    "resize": (lambda x: F.interpolate(x, scale_factor=2), (rand(2, 3, 4, 5),)),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2), (rand(2, 8, 4, 5),)),
}
HALF = {
    *("mm", "linear", "conv2d", "grouped_conv"),
    *("softmax", "layer_norm", "rms_norm"),
    *("attention", "causal", "grouped", "decoding"),
}
LOOSE = {
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
}


# A symbolic head size, channel count or scale has no lowering.
NEEDS_STATIC = {
    "attention of integers with factors",
    "transposed_conv",
    "attention",
    "causal",
    "masked",
    "grouped",
    "hidden rows",
    "repeated heads",
    "decoding",
    "group_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "pointwise_conv",
    "grouped_conv",
    "resize",
}


def checked(name, dynamic, arguments, tolerance=None):
    check(
        CASES[name][0],
        *arguments,
        calls=1,
        strides=False,
        dynamic=dynamic,
        tolerance=tolerance,
    )
    assert anabranch.counters.eager_graphs == 0
    if not (dynamic and name in NEEDS_STATIC):
        assert anabranch.counters.fallback_calls == 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_against_eager(name, dynamic):
    arguments = CASES[name][1]
    floats = all(tensor.is_floating_point() for tensor in arguments)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if floats else None
    checked(name, dynamic, arguments, tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", sorted(HALF))
def test_other_floats(name, dtype):
    arguments = [tensor.to(dtype) for tensor in CASES[name][1]]
    checked(name, False, arguments, LOOSE.get(dtype))


# Images that are wider and narrower than a vector, and panels that begin and end
# within a row. Columns: size, filters, window, stride, padding, dilation, groups.
WINDOWS = [
    ((1, 5, 17, 17), 33, (5, 5), 1, 2, 1, 1),
    ((2, 4, 8, 7), 20, (3, 3), 1, 1, 1, 2),
    ((1, 6, 31, 40), 16, (3, 2), 2, (1, 0), 1, 1),
    ((2, 3, 28, 19), 9, (2, 3), (1, 3), 1, (2, 1), 3),
    ((3, 16, 5, 4), 64, (3, 3), 1, 1, 1, 1),
    ((1, 1, 9, 50), 4, (1, 5), 1, (0, 4), (1, 2), 1),
    ((2, 6, 50), 12, (5,), 1, 2, 1, 2),
    ((2, 6, 50), 12, (3,), 2, 1, 2, 1),
    ((1, 3, 6, 7, 18), 8, (2, 3, 3), 1, 1, 1, 1),
]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64]
)
def test_windows(dtype, frozen):
    """The product reads the image in place, wherever a vector ends."""
    depth = [c // g * math.prod(k) for (_, c, *_), _, k, *_, g in WINDOWS]
    layers = torch.nn.ModuleList(
        (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[len(k) - 1](
            size[1], f, k, stride, padding, dilation, groups
        )
        for size, f, k, stride, padding, dilation, groups in WINDOWS
    ).to(dtype)
    images = [rand(*size).to(dtype) for size, *_ in WINDOWS]
    images[0] = images[0].to(memory_format=torch.channels_last)

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, *images):
            return [layer(x) for layer, x in zip(self.layers, images)]

    expected = [layer.double()(x.double()) for layer, x in zip(layers, images)]
    layers.to(dtype)
    options = {"freeze": frozen}
    with torch.no_grad():
        results = compiled(Layers(), options=options)(*images)
    assert anabranch.counters.fallback_calls == 0
    for result, value, terms in zip(results, expected, depth, strict=True):
        assert result.dtype == dtype
        # At worst the sum has a rounding for each term, of values near one.
        bound = torch.finfo(dtype).eps * (4 + terms**0.5)
        assert (result - value).abs().max() <= bound


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("depth", [768, 4096, 14336])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_rounding_errors_of_few_rows(rows, depth, frozen):
    """Kernels add long sums in parts, so that their errors stay near eager's."""
    ours = eager = 0.0
    for seed in range(4):
        torch.manual_seed(seed)
        layer, x = torch.nn.Linear(depth, 192, bias=False), torch.randn(rows, depth)
        torch._dynamo.reset()
        with torch.no_grad():
            exact = x.double() @ layer.weight.double().t()
            result = compiled(layer, options={"freeze": frozen})(x)
            ours += (result - exact).norm().item() ** 2
            eager += (layer(x) - exact).norm().item() ** 2
    assert ours <= 4 * eager


def test_pools_whose_sizes_must_be_known() -> None:
    x = rand(2, 3, 4, 7, 10)

    def pools(x):
        return F.max_pool3d(x, 3, ceil_mode=True), F.adaptive_avg_pool3d(x, (2, 1, 5))

    torch._dynamo.reset()
    ours = torch.compile(pools, backend=anabranch.anabranch, dynamic=False)(x)
    assert anabranch.last_report()["fallbacks"] == []
    torch.testing.assert_close(ours, pools(x))


class Residual(torch.nn.Module):
    """The second product's results may overwrite the first's."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(17, columns)
        self.inner = torch.nn.Linear(columns, columns, bias=False)

    def forward(self, x):
        first = self.up(x)
        return self.inner(F.gelu(first)) + first


TARGETS = ["avx2", "avx512", "amx"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [4, 12, 24, 30, 40, 104])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_with_a_rest(target, columns, dtype, shared_folder):
    model, x = Residual(columns).to(dtype).eval(), rand(37, 17).to(dtype)
    path = shared_folder / f"package{columns}-{dtype}"
    with torch.no_grad():
        found = exported_for(target, model, (x,), path, TARGETS)(x)
        expected = model(x)
    # Sums of another order, rounded to the dtype.
    loose = {"rtol": 0.02, "atol": 0.01} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found, expected, **loose)
