"""Packages that are made here for 64-bit Arm run there, in an emulator: on a core of
ARMv8.2, and on one with every feature. Results are held against eager PyTorch."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import emulated
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import anabranch

CORES = {"neoverse-n1": "neoverse-n1", "neoverse-v1": "max"}

pytestmark = emulated.needed


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads(x, x, x, need_weights=False)[0]


class Half(nn.Module):
    """A model of 16 bits with a result of 32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 40)
        ).to(dtype)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.to(self.dtype)).float()


class ByteWeights(nn.Module):
    """A product of bytes whose right operand is packed at load."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", int8(72, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x, self.weight)


class Nibbles(nn.Module):
    """A product of rows of bf16, each of two digits, with weights of four bits."""

    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        codes = torch.randint(0, 16, (columns, depth), dtype=torch.int32)
        self.weight = nn.Buffer(torch._convert_weight_to_int4pack_for_cpu(codes, 2))
        self.scales = nn.Buffer(torch.rand(depth // 64, columns, 2) / 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, scales = x.bfloat16(), self.scales.bfloat16()
        return torch._weight_int4pack_mm_for_cpu(rows, self.weight, 64, scales).float()


class ByteCodes(nn.Module):
    """A product of rows of bf16 with weights of eight bits that have scales."""

    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("weight", int8(columns, depth))
        self.scales = nn.Buffer(torch.rand(columns).bfloat16() / 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.bfloat16() * self.scales[:, None]
        return F.linear(x.bfloat16(), weight).float()


class Calls(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.function(*values)


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def few_queries(query: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """Attention in bf16 that reads keys and values, in pairs, where they are."""
    keys, values = rest.bfloat16()
    return F.scaled_dot_product_attention(query.bfloat16(), keys, values).float()


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "layers": lambda: (
        nn.Sequential(nn.Linear(64, 200), nn.GELU(), nn.LayerNorm(200)),
        (floats(9, 64),),
    ),
    "attention": lambda: (Attention(), (floats(2, 17, 64),)),
    **{
        f"{queries} queries of {keys} keys": lambda queries=queries, keys=keys: (
            Calls(few_queries),
            (floats(2, 3, queries, 24), floats(2, 2, 3, keys, 24)),
        )
        for queries, keys in ((1, 1), (3, 37), (5, 66))
    },
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, groups=16),
            nn.Conv2d(16, 24, 1),
            nn.AdaptiveAvgPool2d(1),
        ),
        (floats(1, 3, 19, 23),),
    ),
    "bf16": lambda: (Half(torch.bfloat16), (floats(7, 64),)),
    "f16": lambda: (Half(torch.float16), (floats(7, 64),)),
    "embedding": lambda: (
        nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 8)),
        (torch.randint(0, 50, (4, 6)),),
    ),
    "bytes": lambda: (Calls(torch._int_mm), (int8(33, 64), int8(64, 40))),
    "byte_weights": lambda: (ByteWeights(), (int8(33, 72),)),
    "nibbles": lambda: (Nibbles(256, 192), (floats(1, 256),)),
    "nibbles_of_rows": lambda: (Nibbles(256, 192), (floats(7, 256),)),
    # Tiles of many rows copy such weights to panels; blocks have 12 columns.
    "nibbles_of_many_rows": lambda: (Nibbles(192, 208), (floats(70, 192),)),
    "codes_of_many_rows": lambda: (ByteCodes(90, 100), (floats(45, 90),)),
    "functions": lambda: (
        Calls(
            lambda x: torch.stack([x.exp(), x.erf(), x.tanh(), x.sigmoid(), x.sin()])
        ),
        (floats(3, 70),),
    ),
    "reductions": lambda: (
        Calls(
            lambda x: torch.cat(
                [x.var(1), x.amax(1), x.logsumexp(1), x.cumsum(1)[:, -1]]
            )
        ),
        (floats(12, 300),),
    ),
    "indexing": lambda: (
        Calls(lambda x, i: x.gather(1, i) + x.sort(1).values[:, :5]),
        (floats(6, 20), torch.randint(0, 20, (6, 5))),
    ),
    "doubles": lambda: (
        Calls(lambda x: F.softmax(x @ x.T, -1)),
        (floats(9, 11).double(),),
    ),
}


ACCURACY = {"bf16": 2e-2, "f16": 2e-3, "keys": 2e-2, "nibbles": 4e-2, "codes": 4e-2}


def accuracy_of(name: str) -> float:
    found = (value for word, value in ACCURACY.items() if word in name)
    return next(found, 2e-5)


@pytest.mark.parametrize("target", CORES)
@pytest.mark.parametrize("name", MODELS)
def test_runs_there(name: str, target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    with torch.no_grad():
        wanted = model.eval()(*inputs).numpy()
    package = tmp_path / "package.anb"
    anabranch.export(model, package, inputs, targets=["avx2", target])
    got, *_ = emulated.run_package(package, inputs, tmp_path, CORES[target])
    accuracy = accuracy_of(name)
    np.testing.assert_allclose(got, wanted, atol=accuracy, rtol=accuracy)


def test_says_what_it_lacks(tmp_path: Path) -> None:
    """A core without bf16 is refused code with it; code for x86 is none for Arm."""
    model, inputs = MODELS["bf16"]()
    for target, why in {
        "neoverse-v1": "this CPU lacks what its kernels need",
        "avx2": "it was made for x86-64, this machine is aarch64",
    }.items():
        package = tmp_path / f"{target}.anb"
        anabranch.export(model.eval(), package, inputs, targets=[target])
        done = emulated.emulate("neoverse-n1", package)
        assert done.returncode != 0
        assert why in done.stderr, done.stderr


def loads(library: Path) -> list[tuple[int, int, int]]:
    """The place in the file, the address, and the alignment of each part of a library
    that a loader maps."""
    data = library.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    heads = [
        struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count)
    ]
    return [(head[2], head[3], head[7]) for head in heads if head[0] == 1]


def test_kernels_are_mapped_in_pages_of_64_kib(tmp_path: Path) -> None:
    """Linux for 64-bit Arm has pages of 4, 16 or 64 KiB, and one package serves all."""
    page = 64 * 1024
    model, inputs = MODELS["layers"]()
    package = tmp_path / "arm.anb"
    anabranch.export(model.eval(), package, inputs, targets=["grace"])
    parts = loads(next(package.rglob("kernels.so")))
    assert parts
    for offset, address, alignment in parts:
        assert alignment % page == 0
        assert offset % page == address % page


def test_is_refused_here(tmp_path: Path) -> None:
    model, inputs = MODELS["layers"]()
    package = tmp_path / "arm.anb"
    anabranch.export(model.eval(), package, inputs, targets=["grace"])
    with pytest.raises(RuntimeError, match="made for aarch64, this machine is x86-64"):
        anabranch.load(package)


@pytest.mark.parametrize("targets", [["grace"], ["native", "grace"]])
def test_tuning_for_another_machine_is_refused(
    targets: list[str], tmp_path: Path
) -> None:
    model, inputs = MODELS["layers"]()
    package = tmp_path / "arm.anb"
    with pytest.raises(ValueError, match="on this machine, not on grace"):
        anabranch.export(
            model, package, inputs, targets=targets, config=anabranch.Config(tune=True)
        )
    assert not package.exists()


def test_no_weight_is_watched(tmp_path: Path) -> None:
    """A package has its weights inside, so none can change: with watched weights asked for,
    the only input is the call's."""
    model, inputs = MODELS["layers"]()
    package = tmp_path / "arm.anb"
    config = anabranch.Config(watch=True)
    anabranch.export(model.eval(), package, inputs, targets=["grace"], config=config)
    manifest = json.loads((package / "manifest.json").read_text())
    assert len(manifest["signature"]["inputs"]) == 1, manifest["signature"]
