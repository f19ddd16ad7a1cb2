"""Graphs with sizes, branches and loops that the data decides, and attention by masks:
`run.py programs` measures all of them beside eager, Inductor and ONNX Runtime, where
it takes them.

A peer that breaks such a graph runs its parts with Python between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from harness import WHOLE, Row, Workload, case, steady
from workloads import scaled

WIDTH, LENGTH = 64, 2048
NAMES = ("eager", "inductor", "onnxruntime", *WHOLE)


class ChosenExperts(nn.Module):
    """Each token's two of 16 experts: `nonzero` finds the tokens of each."""

    def __init__(self, count: int = 16, width: int = WIDTH) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
            )
            for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            part = expert(x[rows]) * weights[rows, place, None]
            result = result.index_add(0, rows, part)
        return result


class Detection(nn.Module):
    """Boxes above a score, sorted, of which a loop suppresses what overlaps."""

    def __init__(self, channels: int = WIDTH) -> None:
        super().__init__()
        self.head = nn.Conv2d(channels, 5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.head(x).flatten(2)[0].t()
        scores, corner = found[:, 0].sigmoid(), found[:, 1:3] * 50
        boxes = torch.cat([corner, corner + found[:, 3:].exp() * 20], 1)
        order = torch.topk(scores, 16).indices
        boxes, scores = boxes[order], scores[order]
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        overlaps = shared / (area[:, None] + area - shared) > 0.5
        places = torch.arange(boxes.shape[0])

        def step(i: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
            chosen = places == i
            row = (overlaps & chosen[:, None]).any(0) & (places > i)
            return i + 1, kept & ~(row & (kept & chosen).any())

        def goes_on(i: Tensor, kept: Tensor) -> Tensor:
            return i < kept.shape[0]

        start = torch.zeros((), dtype=torch.int64), torch.ones_like(scores) > 0
        _, kept = while_loop(goes_on, step, start)
        chosen = kept & (scores > 0.3)
        return boxes[chosen], scores[chosen]


class Transducer(nn.Module):
    """Greedy decoding of an RNN-T: a step takes a frame, or writes a word."""

    def __init__(self, words: int = 64, width: int = WIDTH) -> None:
        super().__init__()
        self.encoder = nn.Linear(width, width)
        self.embedding = nn.Embedding(words, width)
        self.cell = nn.Linear(2 * width, width)
        self.joint = nn.Linear(width, words)

    def forward(self, frames: Tensor) -> Tensor:
        encoded = self.encoder(frames)
        count = frames.shape[0]
        places = torch.arange(2 * count)

        def goes_on(time: Tensor, *_: Tensor) -> Tensor:
            return time < count

        def step(time: Tensor, written: Tensor, state: Tensor, words: Tensor) -> Any:
            frame = encoded.index_select(0, time.reshape(1))
            word = self.joint(torch.tanh(frame + state)).argmax(-1)
            room = written < 2 * count - 1
            writes = (word > 31) & room & ((written - time) < 8)
            read = torch.cat([self.embedding(word), state], 1)
            state = torch.where(writes, torch.tanh(self.cell(read)), state)
            words = torch.where((places == written) & writes, word, words)
            one = writes.squeeze(0).long()
            return time + 1 - one, written + one, state, words

        zero = torch.zeros((), dtype=torch.int64)
        start = (zero, zero + 0, torch.zeros_like(frames[:1]), torch.zeros_like(places))
        return while_loop(goes_on, step, start)[3]


class LengthRegulator(nn.Module):
    """Repeats the state of each letter for as many frames as it lasts."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.last = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )
        self.out = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 80)
        )

    def forward(self, x: Tensor) -> Tensor:
        counts = (self.last(x).squeeze(-1).abs() * 8).long().clamp(1, 12)
        return self.out(torch.repeat_interleave(x, counts, dim=0))


class Denoiser(nn.Module):
    """Scales the frequencies of a signal by what a small network says."""

    def __init__(self, size: int = 512) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(size))
        bins = size // 2 + 1
        self.mask = nn.Sequential(
            nn.Linear(bins, 256), nn.ReLU(), nn.Linear(256, bins), nn.Sigmoid()
        )
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        step = self.size // 4
        kinds = {"hop_length": step, "window": self.window}
        found = torch.stft(x, self.size, return_complex=True, **kinds)
        gain = self.mask(found.abs().log1p().transpose(1, 2)).transpose(1, 2)
        return torch.istft(found * gain, self.size, length=x.shape[-1], **kinds)


class MaskedAttention(nn.Module):
    """flex_attention of 2,048 tokens with a block mask."""

    def __init__(self, shown: Callable[..., Tensor]) -> None:
        super().__init__()
        size = (None, None, LENGTH, LENGTH)
        self.blocks = create_block_mask(shown, *size, device="cpu")

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return flex_attention(query, key, value, block_mask=self.blocks)


def sees_window(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i >= j) & (i - j < 256)


def sees_document(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i >= j) & (i // 300 == j // 300)


def sees_before(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


@torch.library.custom_op("benchmark_programs::attend", mutates_args={"cache"})
def attend(query: Tensor, entry: Tensor, place: int, cache: Tensor) -> Tensor:
    """Attention that writes its cache, as a server's operator does."""
    cache[:, :, place] = entry
    keys, values = cache
    result = functional.scaled_dot_product_attention(
        query[None, :, None], keys[None], values[None]
    )
    return result[0, :, 0]


@attend.register_fake
def _(query: Tensor, entry: Tensor, place: int, cache: Tensor) -> Tensor:
    return torch.empty_like(query)


class WritingLayers(nn.Module):
    """One token of twelve layers, whose attention writes an argument."""

    def __init__(self, layers: int = 12, width: int = 576, heads: int = 9) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.ups = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, x: Tensor, *caches: Tensor) -> Tensor:
        layers = zip(self.parts, self.outs, self.ups, self.downs, caches, strict=True)
        for parts, out, up, down, cache in layers:
            query, key, value = parts(x).view(3, self.heads, -1).unbind()
            entry = torch.stack([key, value])
            x = x + out(attend(query, entry, 255, cache).flatten())
            x = x + down(functional.silu(up(x)))
        return x


def writing() -> Workload:
    caches = torch.randn(12, 2, 9, 256, 64).unbind()
    return scaled(WritingLayers(), torch.randn(576), *caches)


def attention(shown: Callable[..., Tensor]) -> Workload:
    return scaled(MaskedAttention(shown), *torch.randn(3, 1, 8, LENGTH, 64).unbind())


PROGRAMS: dict[str, tuple[str, Callable[[], Workload]]] = {
    "experts": (
        "16 experts of 64 to 256, 32 tokens chosen by nonzero",
        lambda: scaled(ChosenExperts(), torch.randn(32, WIDTH)),
    ),
    "detection": (
        "detection head: scores, the best 16, a loop that suppresses",
        lambda: scaled(Detection(), torch.randn(1, WIDTH, 20, 20)),
    ),
    "transducer": (
        "RNN-T, greedy, 50 frames",
        lambda: scaled(Transducer(), torch.randn(50, WIDTH)),
    ),
    "regulator": (
        "length regulator of 100 letters",
        lambda: scaled(LengthRegulator(), torch.randn(100, 256)),
    ),
    "denoiser": (
        "STFT denoiser, one second",
        lambda: scaled(Denoiser(), torch.randn(1, 16000)),
    ),
    "window": (
        "flex_attention, window of 256 in 2,048",
        lambda: attention(sees_window),
    ),
    "documents": (
        "flex_attention, documents of 300 in 2,048",
        lambda: attention(sees_document),
    ),
    "causal": ("flex_attention, causal, 2,048", lambda: attention(sees_before)),
    "writing": ("12 layers with a writing attention, one token", writing),
}


def register() -> None:
    for name, (what, make) in PROGRAMS.items():

        def run(make: Callable[[], Workload] = make) -> list[Row]:
            def seeded() -> Workload:
                torch.manual_seed(0)
                return make()

            return steady(seeded, NAMES, "ms", 2.0, 2e-3)

        run.__doc__ = what
        case(f"programs-{name}", extra=True)(run)


register()
