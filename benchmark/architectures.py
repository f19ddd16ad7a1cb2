"""Networks of many kinds, of a few layers and with random weights, beside every peer:
`run.py workload-swin` measures one of them. Those of `transformers` are built from
their configurations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness import Workload
from workloads import add


class Hidden(nn.Module):
    """The last hidden state of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).last_hidden_state


def built(
    family: str, model: str, argument: Callable[[], Tensor], options: dict[str, Any]
) -> Workload:
    """`transformers`' model of this name, without a cache of keys."""
    import transformers

    config = getattr(transformers, f"{family}Config")(**options)
    made = getattr(transformers, model)(config)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return Workload(Hidden(made).eval(), (argument(),))


def image(size: int = 224) -> Tensor:
    return torch.randn(1, 3, size, size)


def tokens() -> Tensor:
    return torch.randint(0, 1000, (1, 128))


def whisper() -> Workload:
    """The encoder of Whisper tiny for ten seconds."""
    import transformers

    config = transformers.WhisperConfig(
        encoder_layers=4,
        d_model=384,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        max_source_positions=500,
    )
    encoder = transformers.WhisperModel(config).encoder
    return Workload(Hidden(encoder).eval(), (torch.randn(1, 80, 1000),))


class UNet(nn.Module):
    """Two levels down and up again, with group norms and silu."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.block(3, width), self.block(width, 2 * width)])
        self.middle = self.block(2 * width, 4 * width)
        self.rise = nn.ModuleList(
            nn.ConvTranspose2d(2 * inner, inner, 2, 2) for inner in (2 * width, width)
        )
        self.up = nn.ModuleList(
            self.block(2 * inner, inner) for inner in (2 * width, width)
        )
        self.last = nn.Conv2d(width, 1, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            convolution = nn.Conv2d(channels, outputs, 3, padding=1)
            layers += [convolution, nn.GroupNorm(8, outputs), nn.SiLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for rise, block in zip(self.rise, self.up, strict=True):
            x = block(torch.cat([rise(x), kept.pop()], 1))
        return self.last(x)


class WaveNet(nn.Module):
    """Gated convolutions of a line, each with twice the distance of the last."""

    def __init__(self, width: int = 64, layers: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gated = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, dilation=2**i, padding=2**i)
            for i in range(layers)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for gated, mixed in zip(self.gated, self.mixed, strict=True):
            value, gate = gated(x).chunk(2, 1)
            x = x + mixed(value.tanh() * gate.sigmoid())
        return x


def video() -> Workload:
    """Convolutions and pools of 16 frames."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32)):
        convolution = nn.Conv3d(inputs, outputs, 3, padding=1)
        layers += [convolution, nn.BatchNorm3d(outputs), nn.ReLU(), nn.MaxPool3d(2)]
    return Workload(nn.Sequential(*layers).eval(), (torch.randn(1, 3, 16, 56, 56),))


def encoder() -> Workload:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return Workload(layers.eval(), (torch.randn(4, 96, 512),))


# Name, family, model, options.
IMAGES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("mobilenetv1", "MobileNetV1", "MobileNetV1Model", {}),
    ("mobilenetv2", "MobileNetV2", "MobileNetV2Model", {}),
    ("resnet50", "ResNet", "ResNetModel", {}),
    ("regnet", "RegNet", "RegNetModel", {"depths": [1, 2, 2, 1]}),
    ("convnext", "ConvNext", "ConvNextModel", {"depths": [2, 2, 3, 2]}),
    ("vit", "ViT", "ViTModel", {"num_hidden_layers": 4}),
    ("swin", "Swin", "SwinModel", {"depths": [2, 2, 2, 2]}),
    ("segformer", "Segformer", "SegformerModel", {}),
)
SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8000,
}
TEXTS = (
    ("gpt2", "GPT2", "GPT2Model", {"n_layer": 4}),
    ("t5", "T5", "T5EncoderModel", {"num_layers": 4}),
    ("distilbert", "DistilBert", "DistilBertModel", {"n_layers": 4}),
    ("qwen3", "Qwen3", "Qwen3Model", SMALL),
    ("gemma2", "Gemma2", "Gemma2Model", SMALL),
)
OTHERS: dict[str, Callable[[], Workload]] = {
    "whisper": whisper,
    "unet": lambda: Workload(UNet().eval(), (image(128),)),
    "wavenet": lambda: Workload(WaveNet().eval(), (torch.randn(1, 1, 4000),)),
    "video": video,
    "encoder": encoder,
}


def register() -> None:
    for name, family, model, options in IMAGES:
        make = partial(built, family, model, image, options)
        add(name, f"{family} of an image", make)
    for name, family, model, options in TEXTS:
        make = partial(built, family, model, tokens, options)
        add(name, f"{family} of 128 tokens", make)
    for name, other in OTHERS.items():
        add(name, f"a network of the kind {name}", other)


register()
