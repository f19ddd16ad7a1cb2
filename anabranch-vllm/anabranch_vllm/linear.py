"""Keeps linear layers visible to the compiler.

vLLM's CPU platform packs the weight of a linear layer into an operator of its own, which
no compiler can look into. Here the layer calls F.linear of its parameter, so Anabranch
packs the weight, and fuses what comes before and after the product. Logits are computed
outside of the model's graph, by a program of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import kept_products, settings

Dispatch = Callable[[torch.nn.Module, bool], None]


def keep_visible() -> None:
    """Replaces vLLM's choice of a product for the linear layers of compiled models."""
    from vllm.model_executor.layers import utils

    if not isinstance(utils.dispatch_cpu_unquantized_gemm, VisibleLinear):
        utils.dispatch_cpu_unquantized_gemm = VisibleLinear(
            utils.dispatch_cpu_unquantized_gemm, is_compiled
        )


class VisibleLinear:
    """Chooses the product of a layer, in the place of vLLM's function.

    theirs       vLLM's function
    is_compiled  whether Anabranch compiles the model whose weights are loaded
    """

    def __init__(self, theirs: Dispatch, is_compiled: Callable[[], bool]) -> None:
        self.theirs = theirs
        self.is_compiled = is_compiled

    def __call__(self, layer: torch.nn.Module, remove_weight: bool) -> None:
        """`remove_weight` is false for embeddings, whose product computes logits."""
        if not self.is_compiled() or not _is_matrix(layer):
            self.theirs(layer, remove_weight)
            return
        if remove_weight:
            layer.cpu_linear = F.linear
        elif not isinstance(getattr(layer, "cpu_linear", None), Program):
            layer.cpu_linear = Program(_product)  # weights that are loaded anew keep it
        set_packed(layer, "weight")


def set_packed(layer: torch.nn.Module, *names: str) -> None:
    """Says which parameters of a layer programs pack."""
    layer.anabranch_packed = names  # type: ignore[assignment]


def packed_weights(model: torch.nn.Module) -> list[Tensor]:
    """The weights of a model that programs pack."""
    return [
        getattr(layer, name)
        for layer in model.modules()
        for name in getattr(layer, "anabranch_packed", ())
    ]


class Program:
    """A product of `x` and weights. A graph that calls it has it as a part. Outside of
    graphs it is a program for any number of rows, made at its first call: most
    embeddings only look up rows."""

    def __init__(self, product: Callable[..., Tensor]) -> None:
        self.product = product
        self.program: Callable[..., Tensor] | None = None

    def __call__(self, x: Tensor, *weights: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return self.product(x, *weights)
        if self.program is None:
            self.program = kept_products.program(self.product, (x, *weights))
        return self.program(x, *weights)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, bias)


def _is_matrix(layer: Any) -> bool:
    return not layer.weight.is_meta and layer.weight.ndim == 2


def is_compiled() -> bool:
    """Whether Anabranch compiles the model that vLLM makes or loads."""
    from vllm.config import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    return config is not None and config.compilation_config.backend == settings.BACKEND
