"""vLLM's kernels of quantised linear layers, for models that Anabranch compiles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.kernels import linear as choices
from vllm.model_executor.kernels.linear.mixed_precision.cpu import CPUWNA16LinearKernel
from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import (
    Fp8BlockScaledMMLinearKernel,
)
from vllm.model_executor.kernels.linear.scaled_mm.cpu import CPUInt8ScaledMMLinearKernel
from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (
    FP8ScaledMMLinearKernel,
)
from vllm.model_executor.layers.quantization.utils.w8a8_utils import (
    convert_to_channelwise,
)
from vllm.model_executor.utils import replace_parameter
from vllm.platforms.interface import PlatformEnum
from vllm.scalar_type import scalar_types

from . import linear, rounded_linear

_NOT_COMPILED = "Anabranch does not compile the model"


def choose_first() -> None:
    """Has vLLM ask these kernels before its own."""
    for kinds, kernel in (
        (choices._POSSIBLE_KERNELS, HalfBytesKernel),
        (choices._POSSIBLE_INT8_KERNELS, BytesKernel),
        (choices._POSSIBLE_FP8_KERNELS, SmallFloatsKernel),
        (choices._POSSIBLE_FP8_BLOCK_KERNELS, BlocksKernel),
        (choices._POSSIBLE_WFP8A16_KERNELS, SmallWeightsKernel),
    ):
        kernels = kinds[PlatformEnum.CPU]
        if kernel not in kernels:
            kernels.insert(0, kernel)


def _is_read_by_vllm(layer: torch.nn.Module) -> bool:
    """Whether vLLM reads the weight of a layer as the checkpoint's method leaves it.
    Latent attention does so."""
    return getattr(layer, "_cpu_skip_gemm_dispatch", False)


class _OnEveryProcessor:
    """A kernel of ours where vLLM's needs certain processors."""

    @classmethod
    def is_supported(
        cls, compute_capability: int | None = None
    ) -> tuple[bool, str | None]:
        return True, None


class HalfBytesKernel(CPUWNA16LinearKernel):
    """Weights of four bits: AWQ, GPTQ and the packed ones of compressed-tensors."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.product = linear.Program(rounded_linear.multiply_half_bytes)

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        if not linear.is_compiled():
            return False, _NOT_COMPILED
        return super().can_implement(c)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        weight, scale, zeros = self._get_weight_params(layer)
        # AWQ and GPTQ have the columns of a layer as rows.
        packed = weight.data if weight.input_dim == 1 else weight.data.t()
        scales = scale.data if scale.output_dim == 0 else scale.data.t()
        scales = scales.float().contiguous()
        replace_parameter(layer, self.w_q_name, rounded_linear.half_bytes(packed))
        replace_parameter(layer, self.w_s_name, scales)
        if self.config.zero_points:
            rows = zeros.data.t() if zeros.output_dim == 0 else zeros.data
            offset = -rounded_linear.integers(rows).t().float() * scales
            replace_parameter(layer, self.w_zp_name, offset.contiguous())
        elif self.w_zp_name is not None:
            setattr(layer, self.w_zp_name, None)
        linear.set_packed(layer, self.w_q_name)

    def apply_weights(
        self, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        weight, scale, offset = self._get_weight_params(layer)
        center = 8 if self.config.weight_type == scalar_types.uint4b8 else 0
        return self.product(x, weight, scale, offset, center, bias)


class BytesKernel(CPUInt8ScaledMMLinearKernel):
    """Weights and activations of eight bits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.product = linear.Program(rounded_linear.multiply_bytes)

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        if not linear.is_compiled():
            return False, _NOT_COMPILED
        return super().can_implement(c)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        weight_name, scale_name, step_name, zero_name, sums_name = (
            self.layer_param_names
        )
        weight, scale = getattr(layer, weight_name), getattr(layer, scale_name)
        if not self.config.is_channelwise:
            scale = convert_to_channelwise(scale, layer.logical_widths)
        replace_parameter(layer, weight_name, weight.data)
        replace_parameter(layer, scale_name, scale.data.flatten())
        if self.config.is_static_input_scheme:
            step = getattr(layer, step_name).data.max()
            replace_parameter(layer, step_name, step)
        if not self.config.input_symmetric:
            sums = weight.data.sum(1, dtype=torch.float32)
            setattr(layer, sums_name, torch.nn.Parameter(sums, requires_grad=False))
            if self.config.is_static_input_scheme:
                zero = getattr(layer, zero_name).data.max().float()
                replace_parameter(layer, zero_name, zero)
        linear.set_packed(layer, weight_name)

    def apply_weights(
        self, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        weight, scale, step, zero, sums = self._get_layer_params(layer)
        return self.product(x, weight, scale, sums, step, zero, bias)


class SmallFloatsKernel(_OnEveryProcessor, FP8ScaledMMLinearKernel):
    """Weights and activations of floats of eight bits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.product = linear.Program(rounded_linear.multiply_small_floats)

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        if not linear.is_compiled():
            return False, _NOT_COMPILED
        weight = c.weight_quant_key.scale.group_shape
        if not (weight.is_per_tensor() or weight.is_per_channel()):
            return False, "a scale of a weight is that of a row, or of the whole weight"
        return cls.can_round(c.activation_quant_key.scale.group_shape)

    @classmethod
    def can_round(cls, activation: Any) -> tuple[bool, str | None]:
        if activation.is_per_tensor() or activation.is_per_token():
            return True, None
        return False, "a scale of activations is that of a row, or of all"

    def rounding(self) -> str:
        activation = self.config.activation_quant_key.scale.group_shape
        return "tensor" if activation.is_per_tensor() else "row"

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        weight_name, scale_name, _, _ = self.layer_param_names
        weight, scale = getattr(layer, weight_name), getattr(layer, scale_name)
        # vLLM has turned the weight of a layer.
        if not _is_read_by_vllm(layer):
            replace_parameter(layer, weight_name, weight.data.t().contiguous())
        replace_parameter(layer, scale_name, scale.data.flatten().float())
        linear.set_packed(layer, weight_name)

    def apply_weights(
        self, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        weight, scale, step, _ = self._get_layer_params(layer)
        if _is_read_by_vllm(layer):
            weight = weight.t()
        return self.product(x, weight, scale, self.rounding(), step, bias)

    def apply_scaled_mm(self, **arguments: Any) -> Tensor:
        raise NotImplementedError("apply_weights multiplies")


class SmallWeightsKernel(SmallFloatsKernel):
    """Weights of floats of eight bits, for activations as they are. A checkpoint may have
    scales for these, which nothing reads."""

    @classmethod
    def can_round(cls, activation: Any) -> tuple[bool, str | None]:
        return True, None

    def rounding(self) -> str:
        return "none"


class BlocksKernel(_OnEveryProcessor, Fp8BlockScaledMMLinearKernel):
    """Weights of floats of eight bits whose blocks have scales. It leaves activations as
    they are, as vLLM's kernel for AMX does."""

    apply_input_quant = False

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.product = linear.Program(rounded_linear.multiply_blocks)

    @classmethod
    def can_implement(cls, config: Any) -> tuple[bool, str | None]:
        if not linear.is_compiled():
            return False, _NOT_COMPILED
        width = config.weight_quant_key.scale.group_shape.col
        if config.weight_shape[1] % width:
            return False, f"a weight's columns are no blocks of {width}"
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        parts = self._get_layer_params(layer)
        scale = parts.block_scale.data
        if scale.dtype == torch.uint8:  # exponents
            scale = scale.view(torch.float8_e8m0fnu)
        replace_parameter(layer, parts.block_scale_attr, scale.float().contiguous())
        linear.set_packed(layer, parts.WEIGHT)

    def apply_weights(
        self,
        layer: torch.nn.Module,
        x: Tensor,
        bias: Tensor | None = None,
        **named: Any,
    ) -> Tensor:
        parts = self._get_layer_params(layer)
        height = self.config.weight_quant_key.scale.group_shape.row
        return self.product(x, parts.weight, parts.block_scale, height, bias)

    def apply_block_scaled_mm(self, *arguments: Any, **named: Any) -> Tensor:
        raise NotImplementedError("apply_weights multiplies")
