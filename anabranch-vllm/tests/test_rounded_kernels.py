"""vLLM's kernels of quantised layers over stand-ins for vLLM's classes. Needs no vLLM."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from rounded_models import packed
from torch import Tensor, nn

from anabranch_vllm import linear

NAME = "anabranch_vllm.rounded_kernels"
KERNELS = "vllm.model_executor.kernels.linear"
FOUR, FOUR_AROUND_8 = "uint4", "uint4b8"
ROWS, COLUMNS, GROUPS = 24, 64, 4


def parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)


class Kernel:
    """The base of vLLM's kernels: what it says of a layer."""

    def __init__(self, config, *names) -> None:
        self.config, self.layer_param_names = config, names
        self.w_q_name, self.w_s_name, self.w_zp_name = (*names, None, None)[:3]

    @classmethod
    def can_implement(cls, config):
        return True, None

    def _get_weight_params(self, layer):
        names = self.w_q_name, self.w_s_name, self.w_zp_name or ""
        return tuple(getattr(layer, name, None) for name in names)

    def _get_layer_params(self, layer):
        return tuple(getattr(layer, name, None) for name in self.layer_param_names)


def replace_parameter(layer, name: str, values: Tensor) -> None:
    setattr(layer, name, parameter(values))


def channelwise(scale: Tensor, widths: list[int]) -> Tensor:
    return scale.repeat_interleave(torch.tensor(widths)).unsqueeze(1)


class OfBlocks(Kernel):
    """The base of vLLM's kernels of blocks."""

    def __init__(self, config) -> None:
        self.config = config

    def _get_layer_params(self, layer):
        return SimpleNamespace(
            WEIGHT="weight",
            weight=layer.weight,
            block_scale_attr="scale",
            block_scale=layer.scale,
        )


STAND_INS = {
    KERNELS: {
        "_POSSIBLE_KERNELS": {"CPU": ["theirs"]},
        "_POSSIBLE_INT8_KERNELS": {"CPU": ["theirs"]},
        "_POSSIBLE_FP8_KERNELS": {"CPU": ["theirs"]},
        "_POSSIBLE_FP8_BLOCK_KERNELS": {"CPU": ["theirs"]},
        "_POSSIBLE_WFP8A16_KERNELS": {"CPU": []},
    },
    f"{KERNELS}.mixed_precision.cpu": {"CPUWNA16LinearKernel": Kernel},
    f"{KERNELS}.scaled_mm.BlockScaledMMLinearKernel": {
        "Fp8BlockScaledMMLinearKernel": OfBlocks
    },
    f"{KERNELS}.scaled_mm.cpu": {"CPUInt8ScaledMMLinearKernel": Kernel},
    f"{KERNELS}.scaled_mm.ScaledMMLinearKernel": {"FP8ScaledMMLinearKernel": Kernel},
    "vllm.model_executor.layers.quantization.utils.w8a8_utils": {
        "convert_to_channelwise": channelwise
    },
    "vllm.model_executor.utils": {"replace_parameter": replace_parameter},
    "vllm.platforms.interface": {"PlatformEnum": SimpleNamespace(CPU="CPU")},
    "vllm.scalar_type": {"scalar_types": SimpleNamespace(uint4b8=FOUR_AROUND_8)},
}


@pytest.fixture
def kernels(monkeypatch):
    for name, attributes in STAND_INS.items():
        parts = name.split(".")
        for end in range(1, len(parts)):
            folder = ".".join(parts[:end])
            if folder not in STAND_INS:
                monkeypatch.setitem(sys.modules, folder, ModuleType(folder))
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


def loaded(**parameters: Tensor) -> nn.Module:
    layer = nn.Module()
    for name, values in parameters.items():
        setattr(layer, name, parameter(values))
    return layer


def multiplied(kernel, layer: nn.Module, x: Tensor) -> Tensor:
    kernel.process_weights_after_loading(layer)
    kernel.product = kernel.product.product  # eager; the product has tests of its own
    with torch.no_grad():
        return kernel.apply_weights(layer, x)


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("rows_first", [True, False])
def test_half_bytes_in_both_orders(kernels, rows_first, has_zeros) -> None:
    values = torch.randint(0, 16, (ROWS, COLUMNS))
    zeros = torch.randint(0, 16, (ROWS, GROUPS))
    scale = torch.rand(ROWS, GROUPS) + 0.5
    of_groups = packed(zeros.t())  # eight rows in each word, in both orders
    layer = loaded(
        codes=packed(values) if rows_first else packed(values).t().contiguous(),
        scale=scale if rows_first else scale.t().contiguous(),
        zeros=of_groups.t().contiguous() if rows_first else of_groups,
    )
    layer.codes.input_dim = int(rows_first)
    layer.scale.output_dim = layer.zeros.output_dim = int(not rows_first)
    config = SimpleNamespace(
        zero_points=has_zeros, weight_type=FOUR if has_zeros else FOUR_AROUND_8
    )
    kernel = kernels.HalfBytesKernel(config, "codes", "scale", "zeros")
    shifted = values - (
        zeros.repeat_interleave(COLUMNS // GROUPS, 1) if has_zeros else 8
    )
    exact = shifted * scale.double().repeat_interleave(COLUMNS // GROUPS, 1)
    x = torch.randn(3, COLUMNS)
    found = multiplied(kernel, layer, x).double()
    torch.testing.assert_close(found, x.double() @ exact.t(), rtol=1e-5, atol=1e-4)
    assert linear.packed_weights(layer) == [layer.codes]


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("is_channelwise", [False, True])
def test_bytes(kernels, is_channelwise, is_static, has_zeros) -> None:
    weight = torch.randint(-127, 128, (ROWS, COLUMNS), dtype=torch.int8)
    widths = [ROWS - 8, 8]
    scale = (torch.rand(ROWS, 1) if is_channelwise else torch.rand(2)) / 127
    layer = loaded(weight=weight, scale=scale)
    layer.logical_widths = widths
    if is_static:
        layer.step, layer.zero = parameter(torch.tensor([0.05])), None
        if has_zeros:
            zero = torch.tensor([9], dtype=torch.int8)
            layer.zero = parameter(zero)
    config = SimpleNamespace(
        is_channelwise=is_channelwise,
        is_static_input_scheme=is_static,
        input_symmetric=not has_zeros,
    )
    names = ("weight", "scale", "step", "zero", "sums")
    kernel = kernels.BytesKernel(config, *names)
    rows = scale if is_channelwise else channelwise(scale, widths)
    x = torch.rand(3, COLUMNS) * 4 - 2
    found = multiplied(kernel, layer, x)
    expected = x @ (weight.float() * rows).t()
    assert (found - expected).square().mean() <= 1e-3 * expected.square().mean()
    assert linear.packed_weights(layer) == [layer.weight]


class Scales:
    """vLLM's description of the scales of a tensor."""

    def __init__(self, kind: str) -> None:
        self.scale = self.group_shape = self
        for name in ("tensor", "channel", "token", "group"):
            setattr(self, f"is_per_{name}", lambda name=name: name == kind)


def scales(weight: str, activation: str) -> SimpleNamespace:
    return SimpleNamespace(
        weight_quant_key=Scales(weight), activation_quant_key=Scales(activation)
    )


@pytest.mark.parametrize("activation", ["tensor", "token", "none"])
@pytest.mark.parametrize("weight", ["tensor", "channel"])
def test_small_floats(kernels, weight, activation) -> None:
    values = torch.randn(ROWS, COLUMNS).to(torch.float8_e4m3fn)
    scale = torch.rand(ROWS, 1) + 0.5 if weight == "channel" else torch.tensor(0.7)
    layer = loaded(weight=values.t(), scale=scale)
    layer.step = None
    rounds = activation != "none"
    kind = kernels.SmallFloatsKernel if rounds else kernels.SmallWeightsKernel
    names = ("weight", "scale", "step", "limit")
    kernel = kind(scales(weight, activation), *names)
    x = torch.randn(3, COLUMNS)
    found = multiplied(kernel, layer, x).double()
    expected = x.double() @ (values.double() * scale.double()).t()
    error = (found - expected).square().mean() / expected.square().mean()
    assert 1e-5 < error < 2e-3 if rounds else error < 1e-10
    assert linear.packed_weights(layer) == [layer.weight]
    assert layer.weight.is_contiguous()


def test_weights_that_vllm_reads_stay_turned(kernels) -> None:
    values = torch.randn(ROWS, COLUMNS).to(torch.float8_e4m3fn)
    layer = loaded(weight=values.t(), scale=torch.tensor(0.7), step=torch.tensor(1.0))
    layer._cpu_skip_gemm_dispatch = True
    config = scales("tensor", "none")
    kernel = kernels.SmallWeightsKernel(config, "weight", "scale", "step", "limit")
    x = torch.randn(3, COLUMNS)
    found = multiplied(kernel, layer, x).double()
    exact = x.double() @ (values.double() * 0.7).t()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-4)
    assert torch.equal(layer.weight.double(), values.t().double())


def of_blocks(height: int, width: int) -> SimpleNamespace:
    scale = SimpleNamespace(group_shape=SimpleNamespace(row=height, col=width))
    return SimpleNamespace(
        weight_quant_key=SimpleNamespace(scale=scale), weight_shape=(ROWS, COLUMNS)
    )


@pytest.mark.parametrize("kind", [torch.float32, torch.float8_e8m0fnu, torch.uint8])
def test_blocks(kernels, kind) -> None:
    exponents = torch.randint(-3, 3, (2, GROUPS)).float().exp2()
    scale = exponents.to(torch.float8_e8m0fnu)
    scale = scale.view(kind) if kind == torch.uint8 else scale.to(kind)
    values = torch.randn(ROWS, COLUMNS).to(torch.float8_e4m3fn)
    layer = loaded(weight=values, scale=scale)
    kernel = kernels.BlocksKernel(of_blocks(16, COLUMNS // GROUPS))
    each = exponents.repeat_interleave(16, 0)[:ROWS]
    exact = values.double() * each.repeat_interleave(COLUMNS // GROUPS, 1).double()
    x = torch.randn(3, COLUMNS)
    found = multiplied(kernel, layer, x).double()
    torch.testing.assert_close(found, x.double() @ exact.t(), rtol=1e-5, atol=1e-4)
    assert linear.packed_weights(layer) == [layer.weight]
    assert layer.scale.shape == (2, GROUPS)  # vLLM reads scales of latent attention


def test_columns_of_no_whole_blocks_are_vllms(kernels, monkeypatch) -> None:
    monkeypatch.setattr(linear, "is_compiled", lambda: True)
    can, why = kernels.BlocksKernel.can_implement(of_blocks(16, COLUMNS - 1))
    assert not can and "blocks" in why


def test_other_scales_of_small_floats_are_vllms(kernels, monkeypatch) -> None:
    monkeypatch.setattr(linear, "is_compiled", lambda: True)
    for given in (scales("group", "tensor"), scales("tensor", "group")):
        can, why = kernels.SmallFloatsKernel.can_implement(given)
        assert not can and "scale" in why


def test_kernels_are_asked_first_and_once(kernels) -> None:
    for _ in range(2):
        kernels.choose_first()
    choices = sys.modules[KERNELS]
    assert choices._POSSIBLE_KERNELS["CPU"] == [kernels.HalfBytesKernel, "theirs"]
    assert choices._POSSIBLE_INT8_KERNELS["CPU"] == [kernels.BytesKernel, "theirs"]
    assert choices._POSSIBLE_FP8_KERNELS["CPU"] == [kernels.SmallFloatsKernel, "theirs"]
    assert choices._POSSIBLE_FP8_BLOCK_KERNELS["CPU"] == [
        kernels.BlocksKernel,
        "theirs",
    ]
    assert choices._POSSIBLE_WFP8A16_KERNELS["CPU"] == [kernels.SmallWeightsKernel]


def test_models_that_are_not_compiled_keep_vllms(kernels, monkeypatch) -> None:
    for kind in (
        kernels.HalfBytesKernel,
        kernels.BytesKernel,
        kernels.SmallFloatsKernel,
        kernels.SmallWeightsKernel,
        kernels.BlocksKernel,
    ):
        config = scales("channel", "token")
        if kind is kernels.BlocksKernel:
            config = of_blocks(16, 16)
        monkeypatch.setattr(linear, "is_compiled", lambda: False)
        assert kind.can_implement(config) == (False, kernels._NOT_COMPILED)
        monkeypatch.setattr(linear, "is_compiled", lambda: True)
        assert kind.can_implement(config) == (True, None)
