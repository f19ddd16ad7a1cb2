"""Scales of float8_e8m0fnu: programs read their bytes."""

from __future__ import annotations

import pytest
import torch
from checking import compiled
from torch import Tensor, nn

import anabranch

SCALES = torch.float8_e8m0fnu
ALL = torch.arange(256, dtype=torch.uint8)
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def assert_one_program() -> None:
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1, report
    assert report["fallbacks"] == []
    assert anabranch.counters.eager_graphs == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_all_values(dtype: torch.dtype) -> None:
    """Those of PyTorch: subnormal numbers, infinities of narrow floats, and NaN."""
    scales = ALL.view(SCALES)
    found = compiled(lambda s: s.to(dtype), fullgraph=True)(scales)
    torch.testing.assert_close(found, scales.to(dtype), rtol=0, atol=0, equal_nan=True)
    assert_one_program()


MOVES = {
    "transposed": lambda s: s.t().float(),
    "rows": lambda s: s[2:7, ::2].float(),
    "expanded": lambda s: s.unsqueeze(-1).expand(-1, -1, 3).reshape(16, 48).float(),
    "chosen": lambda s: s[torch.tensor([3, 3, 0])].float(),
    "contiguous": lambda s: s.t().contiguous().view(-1).float(),
    "bytes": lambda s: s.t().view(torch.uint8) + 1,
    "signed": lambda s: s.view(torch.int8).to(torch.int16) - 1,
    "there and back": lambda s: s.view(torch.uint8)[1:].view(SCALES).float() * 2,
    "two readers": lambda s: (s.float(), s[0].to(torch.bfloat16)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    scales = ALL.flip(0).view(SCALES).view(16, 16)
    found = compiled(MOVES[name], fullgraph=True)(scales)
    torch.testing.assert_close(
        found, MOVES[name](scales), rtol=0, atol=0, equal_nan=True
    )
    assert_one_program()


def test_arguments_of_other_strides() -> None:
    scales = ALL.view(SCALES).view(16, 16)
    run = compiled(lambda s: s.float() + 1, fullgraph=True, dynamic=True)
    for given in (scales, scales.t(), scales[:, 3:9], scales[::2]):
        torch.testing.assert_close(run(given), given.float() + 1, equal_nan=True)


class Blocks(nn.Module):
    """A weight of MXFP8: a scale for each 32 columns."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(64, 128, generator=generator)
        codes = torch.randint(118, 130, (64, 4), generator=generator)
        self.weight = nn.Buffer(weight.to(torch.float8_e4m3fn))
        self.scale = nn.Buffer(codes.to(torch.uint8).view(SCALES))

    def forward(self, x: Tensor) -> Tensor:
        blocks = self.weight.float().view(64, 4, 32)
        weight = (blocks * self.scale.float().unsqueeze(-1)).view(64, 128)
        return torch.relu(x @ weight.t())


@pytest.mark.parametrize("freeze", [False, True])
def test_weights_of_blocks(freeze: bool) -> None:
    model, x = Blocks().eval(), torch.randn(5, 128)
    run = compiled(model, fullgraph=True, options={"freeze": freeze})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        assert_one_program()
        model.scale.view(torch.uint8).add_(1)
        torch.testing.assert_close(run(x), model(x))


def test_package(tmp_path) -> None:
    model, x = Blocks().eval(), torch.randn(5, 128)
    anabranch.export(model, tmp_path / "blocks.anb", (x,))
    torch.testing.assert_close(anabranch.load(tmp_path / "blocks.anb")(x), model(x))


def test_scales_as_arguments_of_a_package(tmp_path) -> None:
    class Read(nn.Module):
        def forward(self, scales: Tensor) -> Tensor:
            return scales.float() * 2

    scales = ALL[:255].view(SCALES)
    anabranch.export(Read().eval(), tmp_path / "read.anb", (scales,))
    package = anabranch.load(tmp_path / "read.anb")
    for given in (scales, scales.view(torch.uint8)):
        torch.testing.assert_close(package(given), scales.float() * 2)


@pytest.mark.parametrize(
    "function", [lambda s: s.t(), lambda s: s.float().to(SCALES)], ids=["move", "make"]
)
def test_scales_as_results_are_pytorchs(function) -> None:
    scales = ALL.view(SCALES).view(16, 16)
    found, expected = compiled(function)(scales), function(scales)
    assert found.dtype == SCALES
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
