"""Models that PT2E quantised for x86. torchao has to be there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from harness import Workload
from quantised_models.cases import add
from workloads import resnet18


def pt2e(make: Callable[[], Workload], dynamic: bool = False) -> Workload:
    """The model in the integers that X86InductorQuantizer chooses. Inductor needs
    frozen weights to find them."""
    import torch._inductor.config as inductor
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    inductor.freezing = True
    torch.manual_seed(0)
    work = make()
    settings = x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
    quantizer = x86.X86InductorQuantizer().set_global(settings)
    model = cast(nn.Module, work.function)
    graph = torch.export.export(model, work.arguments).module()
    prepared = prepare_pt2e(graph, quantizer)
    prepared(*work.arguments)
    return Workload(convert_pt2e(prepared), work.arguments)


class TwoLayers(nn.Module):
    """Two linear layers around a GELU."""

    def __init__(self, width: int = 1024) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


def two_layers(count: int) -> Workload:
    return Workload(TwoLayers().eval(), (torch.randn(count, 1024),))


def encoder(width: int = 768) -> Workload:
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, 0.0, "gelu", batch_first=True
    )
    layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return Workload(layers.eval(), (torch.randn(1, 128, width),))


def register() -> None:
    add("resnet18", "ResNet-18 of PT2E, batch 1", partial(pt2e, resnet18))
    what = "four layers of a transformer of PT2E, 768 wide, 128 tokens"
    add("encoder", what, partial(pt2e, encoder))
    for count in (1, 256):
        make = partial(two_layers, count)
        what = f"two linear layers of PT2E, {count} rows"
        add(f"mlp-{count}", what, partial(pt2e, make))
        add(f"dynamic-{count}", f"{what}, dynamic", partial(pt2e, make, True))


register()
