"""Operators of torch_npu that the page of super kernels does not use. They equal models in
float64 and integers, and graphs equal eager calls."""

from __future__ import annotations

import pytest
import torch

import anabranch
import torch_npu
import torchair
import torchair.experimental.inference

KINDS = [torch.float32, torch.bfloat16, torch.float16]


def run(function, *arguments, fallbacks: int = 0):
    """Runs a function eagerly and in a graph, asserts equal results, and returns them. Our
    kernels run the graph."""
    expected = function(*arguments)
    anabranch.counters.reset()
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=torchair.get_npu_backend())
    with torch.no_grad():
        found = compiled(*arguments)
    torch.testing.assert_close(found, expected)
    assert anabranch.counters.graphs == 1
    assert anabranch.counters.fallback_calls == fallbacks
    assert anabranch.counters.eager_graphs == 0
    return expected


def normed(x, gamma, beta=None):
    wide = x.double()
    y = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gamma.double()
    return y if beta is None else y + beta.double()


def tensors(kind):
    made = [torch.randn(6, 32).to(kind) for _ in range(2)]
    return *made, torch.randn(32).to(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_norm_and_cast(kind) -> None:
    x1, x2, gamma = tensors(kind)
    wide, y, rstd, total = run(torch_npu.npu_add_rms_norm_cast, x1, x2, gamma)
    parts = torch_npu.npu_add_rms_norm(x1, x2, gamma)
    assert all(map(torch.equal, (y, rstd, total), parts))
    assert wide.dtype == torch.float32
    assert torch.equal(wide, y.float())
    near = {"rtol": 1e-2, "atol": 2e-2}
    torch.testing.assert_close(y.double(), normed(x1 + x2, gamma), **near)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("div_mode", [True, False])
def test_norm_and_quantise(kind, div_mode) -> None:
    x1, x2, gamma = tensors(kind)
    beta, scales = torch.randn(32).to(kind), torch.rand(32) + 0.1
    points = torch.randint(-5, 5, (32,), dtype=torch.int32)
    op = torch_npu.npu_add_rms_norm_quant

    def both(x1, x2, gamma, scales, points):
        return op(
            *(x1, x2, gamma, scales, points, beta, scales * 2, None),
            div_mode=div_mode,
        )

    y1, y2, total = run(both, x1, x2, gamma, scales, points)
    assert torch.equal(total, x1 + x2)
    y = normed(total, gamma, beta)
    for found, scale, point in ((y1, scales, points), (y2, scales * 2, 0)):
        exact = (y / scale if div_mode else y * scale) + point
        off = (found.double() - exact.clamp(-128, 127)).abs().max()
        # The tolerance: one step of the dtype of y, and a rounding.
        assert off <= 0.51 + {torch.bfloat16: 0.4, torch.float16: 0.1}.get(kind, 0)
    plain = op(x1, x2, gamma, scales, points)[1]
    assert torch.equal(plain, normed(total, gamma).to(kind).round().to(torch.int8))
    with pytest.raises(RuntimeError, match="axis"):
        op(x1, x2, gamma, scales, points, axis=0)


def test_joined_norms_are_those_by_themselves() -> None:
    x1, x2, gamma = tensors(torch.bfloat16)
    scales = torch.rand(32) + 0.1
    y, _, total = torch_npu.npu_add_rms_norm(x1, x2, gamma)
    alone = torch_npu.npu_quantize(y, scales, None, torch.qint8, axis=-1)
    joined = torch_npu.npu_add_rms_norm_quant(x1, x2, gamma, scales, None)
    assert torch.equal(joined[0], alone)
    rows = torch_npu.npu_dynamic_quant(y, smooth_scales=scales)
    found = torch_npu.npu_add_rms_norm_dynamic_quant(
        x1, x2, gamma, smooth_scale1=scales, output_mask=[True, False]
    )
    assert torch.equal(found[0], rows[0])
    assert torch.equal(found[3], rows[1])
    assert torch.equal(found[2], total)
    assert found[1].numel() == found[4].numel() == 1


def test_norm_and_dynamic_scales_in_graphs() -> None:
    x1, x2, gamma = tensors(torch.bfloat16)
    smooth = torch.rand(32)

    def both(x1, x2, gamma):
        return torch_npu.npu_add_rms_norm_dynamic_quant(
            x1, x2, gamma, smooth_scale1=smooth, smooth_scale2=smooth * 2, beta=gamma
        )

    y1, y2, total, scale1, scale2 = run(both, x1, x2, gamma)
    y = normed(total, gamma, gamma) * smooth
    torch.testing.assert_close(
        y1 * scale1.unsqueeze(-1), y.float(), rtol=2e-2, atol=3e-2
    )
    torch.testing.assert_close(scale2, scale1 * 2)
    assert torch.equal(y1, y2)


@pytest.mark.parametrize(
    ("kind", "stored", "limits"),
    [
        (torch.quint8, torch.uint8, (0, 255)),
        (torch.qint8, torch.int8, (-128, 127)),
        (torch.qint32, torch.int32, (-(2**31), 2**31 - 1)),
    ],
)
@pytest.mark.parametrize("div_mode", [True, False])
def test_quantise(kind, stored, limits, div_mode) -> None:
    x = torch.randn(3, 5, 7) * 100
    scales, points = torch.rand(5) + 0.5, torch.randint(-9, 9, (5,)).float()

    # A factor is along the last axis but one only where its name is -2.
    axis = 1 if div_mode else -2

    def quantise(x, scales, points):
        return torch_npu.npu_quantize(x, scales, points, kind, axis, div_mode)

    found = run(quantise, x, scales, points)
    assert found.dtype == stored
    scale = scales[:, None].double()
    exact = (x / scale if div_mode else x * scale) + points[:, None]
    assert (found.double() - exact.clamp(*limits)).abs().max() <= 0.5001


def test_quantised_integers_stop_at_their_limits() -> None:
    x = torch.tensor([1e20, -1e20])
    found = torch_npu.npu_quantize(x, torch.ones(1), None, torch.qint32, 0)
    assert found.tolist() == [2**31 - 1, -(2**31)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(2, 3), torch.ones(2), None, torch.qint8), "scales must have 1 or"),
        ((torch.ones(2, 3), torch.ones(3), None, torch.float16), "dtype must be"),
        ((torch.ones(2, 3), torch.ones(3), None, torch.qint8, 2), "no axis 2"),
        (
            (torch.ones(2, 3), torch.ones(3), torch.ones(2), torch.qint8),
            "zero_points must have",
        ),
    ],
)
def test_wrong_quantising(arguments, words) -> None:
    with pytest.raises(RuntimeError, match=f"npu_quantize: .*{words}"):
        torch_npu.npu_quantize(*arguments)


# Weights


def test_int4_is_packed_from_the_lowest_bits() -> None:
    values = torch.randint(-8, 8, (3, 16), dtype=torch.int32)
    packed = run(torch_npu.npu_convert_weight_to_int4pack, values)
    assert packed.shape == (3, 2)
    for row in range(3):
        for column in range(16):
            nibble = packed[row, column // 8].item() >> 4 * (column % 8) & 15
            assert (nibble ^ 8) - 8 == values[row, column]
    with pytest.raises(RuntimeError, match="multiple of 8, got 12"):
        torch_npu.npu_convert_weight_to_int4pack(values[:, :12])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [0, 8])
@pytest.mark.parametrize("packed", [False, True])
def test_weights_of_integers(kind, group, packed) -> None:
    limit = 8 if packed else 128
    weight = torch.randint(-limit, limit, (24, 16), dtype=torch.int32)
    x = torch.randn(5, 24).to(kind)
    shape = (3, 16) if group else (16,)
    scale, offset = torch.rand(shape).to(kind) / limit, torch.randn(shape).to(kind)
    bias = torch.randn(16).to(kind)
    given = weight.to(torch.int8)
    if packed:
        given = torch_npu.npu_convert_weight_to_int4pack(weight)

    def product(x, given, scale, offset, bias):
        return torch_npu.npu_weight_quant_batchmatmul(
            x, given, scale, offset, bias=bias, antiquant_group_size=group
        )

    found = run(product, x, given, scale, offset, bias)
    wide = [t.double() for t in (scale, offset)]
    if group:
        wide = [t.repeat_interleave(8, 0) for t in wide]
    exact = x.double() @ ((weight.double() + wide[1]) * wide[0]) + bias.double()
    assert found.dtype == kind
    rtol = {torch.bfloat16: 8e-3, torch.float16: 1e-3}.get(kind, 1e-4)
    torch.testing.assert_close(found.double(), exact, rtol=rtol, atol=1e-3)


@pytest.mark.parametrize("name", ["hifloat8", "float8_e4m3fn", "float8_e5m2"])
def test_weights_of_eight_bits_that_are_floats(name) -> None:
    x, scale = torch.randn(5, 8).half(), torch.rand(6)
    values = torch.randn(8, 6)
    number = torch_npu.hifloat8 if name == "hifloat8" else None
    weight = torch_npu.npu_dtype_cast(values, number or getattr(torch, name))
    tensor = torch_npu.HiFloat8Tensor
    exact = tensor(data=weight).float() if number else weight.float()

    def product(x, weight, scale):
        return torch_npu.npu_weight_quant_batchmatmul(
            x, weight, scale, weight_dtype=number
        )

    found = run(product, x, weight, scale)
    wanted = x.double() @ (exact.double() * scale.double())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-3)
    with pytest.raises(RuntimeError, match="weight of hifloat8 must be torch.uint8"):
        torch_npu.npu_weight_quant_batchmatmul(x, values, scale, weight_dtype=290)


def test_a_product_that_is_quantised() -> None:
    x, weight = torch.randn(5, 8), torch.randint(-128, 128, (8, 6), dtype=torch.int8)
    scale, outer = torch.rand(1) / 128, torch.tensor([20.0])
    found = torch_npu.npu_weight_quant_batchmatmul(
        x, weight, scale, quant_scale=outer, quant_offset=torch.tensor([3.0])
    )
    exact = (x.double() @ (weight.double() * scale)) * 20 + 3
    assert found.dtype == torch.int8
    assert (found.double() - exact.clamp(-128, 127)).abs().max() <= 0.5001


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight": torch.ones(8, 6).half()}, "weight must be int8, int32, float32"),
        ({"weight": torch.ones(8, 6)}, "antiquant_scale must have 1 or 48"),
        ({"x": torch.ones(5, 8, dtype=torch.int64)}, "x must be float16, bfloat16"),
        ({"x": torch.ones(5, 7)}, "x has 7 columns and weight 8 rows"),
        ({"antiquant_scale": torch.ones(5)}, "antiquant_scale must have 1 or 6"),
        ({"antiquant_group_size": 4}, r"must have shape \(2, 6\) for groups of 4"),
        ({"quant_offset": torch.ones(1)}, "quant_offset needs quant_scale"),
    ],
)
def test_wrong_weights(options, words) -> None:
    given = {
        "x": torch.ones(5, 8),
        "weight": torch.ones(8, 6, dtype=torch.int8),
        "antiquant_scale": torch.ones(6),
    }
    with pytest.raises(RuntimeError, match=words):
        torch_npu.npu_weight_quant_batchmatmul(**given | options)


def test_transposed_products() -> None:
    x, weight = torch.randn(6, 4, 8), torch.randn(6, 8, 5)
    plain = run(torch_npu.npu_transpose_batchmatmul, x, weight)
    torch.testing.assert_close(plain, torch.bmm(x, weight).transpose(0, 1))
    assert plain.is_contiguous()

    def transposed(x, weight):
        return torch_npu.npu_transpose_batchmatmul(
            x, weight, perm_x1=[1, 0, 2], perm_x2=[0, 2, 1], batch_split_factor=3
        )

    found = run(transposed, x.transpose(0, 1), weight.transpose(1, 2))
    expected = torch.bmm(x, weight).unflatten(0, (3, 2)).permute(0, 2, 1, 3).flatten(2)
    torch.testing.assert_close(found, expected)
    factor, shift = torch.arange(1.0, 31.0), torch.arange(30.0) - 9
    code = torch_npu.npu_trans_quant_param(factor, shift)
    wanted = plain.double().flatten(1) * factor + shift

    def scaled(x, weight, code):
        return torch_npu.npu_transpose_batchmatmul(x, weight, scale=code)

    in_eager_code = scaled(x, weight, code.view(torch.uint64))
    for found in (run(scaled, x, weight, code), in_eager_code):
        assert found.dtype == torch.int8 and found.shape == (4, 1, 30)
        off = found.squeeze(1).double() - wanted.clamp(-128, 127)
        assert off.abs().max() <= 0.501
    for options, words in (
        ({"scale": factor}, "scale must be int64, uint64"),
        ({"scale": code[:3]}, r"scale must have shape \(30,\)"),
        ({"scale": code, "batch_split_factor": 2}, "must be 1 beside scale: 2"),
        ({"scale": code, "perm_y": [0, 1, 2]}, r"perm_y must be \[1, 0, 2\] beside"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch_npu.npu_transpose_batchmatmul(x, weight, **options)
    with pytest.raises(RuntimeError, match="does not divide the batch, 6"):
        torch_npu.npu_transpose_batchmatmul(x, weight, batch_split_factor=4)
    with pytest.raises(RuntimeError, match="perm_y is no order"):
        torch_npu.npu_transpose_batchmatmul(x, weight, perm_y=[0, 0, 1])


# Scattering


def test_updates_along_an_axis() -> None:
    data, updates = torch.randn(3, 2, 9, 4), torch.randn(3, 2, 2, 4)
    indices = torch.tensor([0, 5, 7])
    expected = data.clone()
    for row, start in enumerate(indices):
        expected[row, :, start : start + 2] = updates[row]

    def copied(data, indices, updates):
        return torch_npu.scatter_update(data, indices, updates, -2)

    assert torch.equal(run(copied, data, indices, updates), expected)

    def in_place(data, indices, updates):
        torch_npu.scatter_update_(data, indices, updates, 2)
        return data + 1

    for compiles in (False, True):
        target = data.clone()
        function = in_place
        if compiles:
            function = torch.compile(in_place, backend=torchair.get_npu_backend())
        assert torch.equal(function(target, indices, updates), expected + 1)
        assert torch.equal(target, expected)
    with pytest.raises(RuntimeError, match="but the first, got 0"):
        torch_npu.scatter_update(data, indices, updates, 0)
    with pytest.raises(RuntimeError, match=r"indices must have shape \(3,\)"):
        torch_npu.scatter_update(data, indices[:2], updates, 1)


def test_updates_at_places() -> None:
    x, updates = torch.randn(4, 5, 3), torch.randn(2, 3)
    indices = torch.tensor([[0, 4], [3, 1]])
    expected = x.clone()
    expected[0, 4], expected[3, 1] = updates
    found = torch_npu.npu_scatter_nd_update(x, indices, updates)
    assert torch.equal(found, expected)
    with torch.no_grad():
        run = torch.compile(
            torch_npu.npu_scatter_nd_update_, backend=torchair.get_npu_backend()
        )
        target = x.clone()
        run(target, indices, updates)
    assert torch.equal(target, expected)


# Effects


def test_prefetching_does_nothing_but_check() -> None:
    x = torch.ones(4)

    def function(x):
        y = x + 1
        torch_npu.npu_prefetch(x, y, 16, 4)
        return y

    with pytest.warns(UserWarning, match="npu_prefetch has no effect on this host"):
        run(function, x)
    for size, offset in ((0, 0), (-1, 0), (4, -1)):
        with pytest.raises(ValueError, match="npu_prefetch"):
            torch_npu.npu_prefetch(x, None, size, offset)

    def alone(x):
        torch_npu.npu_prefetch(x, None, 4)
        return x + 1

    with pytest.raises(Exception, match="a graph needs a dependency"):
        torch.compile(alone, backend="npu", fullgraph=True)(x)


def test_saved_tensors_count_the_runs(tmp_path) -> None:
    path = str(tmp_path / "seen.pt")

    def function(x):
        y = x * 2
        torch_npu.save_npugraph_tensor(y, save_path=path)
        return y + 1

    with torch.no_grad():
        compiled = torch.compile(function, backend=torchair.get_npu_backend())
        for number in (1, 2):
            compiled(torch.full((3,), float(number)))
    assert anabranch.counters.eager_graphs == 0
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["seen_device_0_0.pt", "seen_device_0_1.pt"]
    for number, name in enumerate(names, 1):
        found = torch.load(tmp_path / name)
        assert torch.equal(found, torch.full((3,), 2.0 * number))
    with pytest.raises(TypeError, match="input must be a tensor or a list of them"):
        torch_npu.save_npugraph_tensor([1, 2])


def test_saved_lists_and_files_that_are_overwritten(tmp_path) -> None:
    path = str(tmp_path / "seen.bin")

    def function(x):
        torch_npu.save_npugraph_tensor([x, x + 1], save_path=path, overwrite=True)
        return x * 2

    with torch.no_grad():
        compiled = torch.compile(function, backend=torchair.get_npu_backend())
        for number in (1.0, 2.0):
            compiled(torch.full((3,), number))
    (file,) = tmp_path.iterdir()
    assert file.name == "seen_device_0.bin"
    first, second = torch.load(file)
    assert torch.equal(first, torch.full((3,), 2.0))
    assert torch.equal(second, torch.full((3,), 3.0))


@pytest.mark.parametrize("mode", ["eager", "graph", "captured"])
def test_printed_tensors(capsys, mode) -> None:
    def function(x):
        y = x + 1
        torch_npu.print_npugraph_tensor(y, tensor_name="added")
        torch.ops.npu.print_npugraph_tensor(y)
        return y * 2

    x = torch.zeros(2)
    wanted = "added:\ntensor([1., 1.])\ntensor([1., 1.])\n"
    if mode == "captured":
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            function(x)
        capsys.readouterr()
        graph.replay()
    else:
        call = function
        if mode == "graph":
            call = torch.compile(function, backend="npugraph_ex", fullgraph=True)
        with torch.no_grad():
            call(x)
    assert capsys.readouterr().out == wanted


# Formats of weights


@pytest.mark.checklist("T144")
def test_weights_get_their_format() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.Conv2d(2, 2, 1).half(),
        torch.nn.Conv2d(2, 2, 1),
        torch.nn.Conv2d(2, 2, 1, groups=2).half(),
    )
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match="Cpu weight is not supported"):
        torchair.use_internal_format_weight(model)
    with pytest.warns(UserWarning, match="has no effect on this host"):
        torchair.use_internal_format_weight(model.npu())
    formats = [int(torch_npu.get_npu_format(layer.weight)) for layer in model]
    assert formats == [29, 4, 0, 0]
    assert all(map(torch.equal, before, model.parameters()))
    older = torchair.experimental.inference
    assert older.use_internal_format_weight is torchair.use_internal_format_weight
    cast = older.npu_format_cast_via_cpu(torch.ones(2, 2), 29)
    assert torch_npu.get_npu_format(cast) == 29
