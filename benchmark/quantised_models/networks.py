"""Networks of convolutions and of attention with random weights, whose batch norms
have seen data: activations of quantised copies then use their bytes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness import Workload


def convolution(
    inputs: int, outputs: int, window: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(
        inputs, outputs, window, stride, window // 2, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.first = convolution(inputs, width, 1)
        self.second = convolution(width, width, 3, stride)
        self.third = convolution(width, outputs, 1)
        changes = stride > 1 or inputs != outputs
        self.shortcut = convolution(inputs, outputs, 1, stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.second(torch.relu(self.first(x))))
        rest = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.third(inner) + rest)


class Inverted(nn.Module):
    """A block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = inputs * factor
        layers: list[nn.Module] = []
        if factor > 1:
            layers += [convolution(inputs, inner, 1), nn.ReLU6()]
        layers += [convolution(inner, inner, 3, stride, inner), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, convolution(inner, outputs, 1))
        self.keeps = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.keeps else self.layers(x)


def head(inputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, *head(inputs))


MOBILENET = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet() -> nn.Module:
    layers: list[nn.Module] = [convolution(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    for factor, outputs, count, stride in MOBILENET:
        for i in range(count):
            layers.append(Inverted(inputs, outputs, stride if i == 0 else 1, factor))
            inputs = outputs
    layers += [convolution(inputs, 1280, 1), nn.ReLU6()]
    return nn.Sequential(*layers, *head(1280))


class Encoder(nn.Module):
    """A layer of BERT."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        make = [nn.Linear(width, width) for _ in range(4)]
        self.query, self.key, self.value, self.out = make
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.reshape(batch, length, width // 64, 64).transpose(1, 2)

        found = functional.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        )
        x = self.norms[0](x + self.out(found.transpose(1, 2).reshape(x.shape)))
        return self.norms[1](x + self.down(functional.gelu(self.up(x))))


def encoder() -> nn.Module:
    return nn.Sequential(*(Encoder() for _ in range(2)))


IMAGE = (1, 3, 224, 224)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet": (mobilenet, IMAGE),
    "resnet50": (resnet50, IMAGE),
    "encoder": (encoder, (1, 128, 768)),
}


def network(name: str) -> Workload:
    """The network of this name in eval mode, and an input."""
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model = make()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, *shape[1:]))
    return Workload(model.eval(), (torch.randn(shape),))
