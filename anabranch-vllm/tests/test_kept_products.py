"""Programs of products outside of graphs are kept for the next start. Needs no vLLM."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import anabranch
from anabranch.packages import cache
from anabranch_vllm import kept_products, settings


def product(x, weight, center: int = 0):
    return F.linear(x - center, weight)


@pytest.fixture
def weight():
    return nn.Parameter(torch.randn(96, 32), requires_grad=False)


@torch.no_grad()
def run(weight, *rest: int) -> None:
    """Makes a program at seven rows and calls it with others."""
    made = kept_products.program(product, (torch.randn(7, 32), weight, *rest))
    for rows in (3, 1, 8):
        x = torch.randn(rows, 32)
        expected = product(x.double(), weight.double(), *rest)
        torch.testing.assert_close(
            made(x, weight, *rest).double(), expected, rtol=1e-4, atol=1e-4
        )


def kept() -> list:
    return list(settings.kept_programs().iterdir())


def test_the_next_start_loads_the_program(weight) -> None:
    run(weight)
    assert len(kept()) == 1
    assert anabranch.counters.graphs == 1
    torch._dynamo.reset()
    run(nn.Parameter(torch.randn(96, 32), requires_grad=False))
    assert anabranch.counters.loaded == 1
    assert len(kept()) == 1


def test_other_arguments_are_another_program(weight) -> None:
    run(weight, 3)
    run(nn.Parameter(torch.randn(64, 32), requires_grad=False))
    assert len(kept()) == 2
    assert anabranch.counters.loaded == 0


@torch.no_grad()
def test_rows_that_lie_apart_are_another_program(weight) -> None:
    x = torch.randn(7, 48)
    for given in (x[:, :32].contiguous(), x[:, :32]):
        made = kept_products.program(product, (given, weight))
        expected = product(given.double(), weight.double())
        torch.testing.assert_close(
            made(given, weight).double(), expected, rtol=1e-4, atol=1e-4
        )
    assert len(kept()) == 2


def test_a_damaged_file_is_replaced(weight, caplog) -> None:
    run(weight)
    (path,) = kept()
    path.write_bytes(path.read_bytes()[:-100])
    run(weight)
    (line,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "again" in line.getMessage() and str(path) in line.getMessage()
    run(weight)
    assert anabranch.counters.loaded == 1


def test_a_program_of_another_processor_is_made_again(weight, caplog) -> None:
    run(weight)
    (path,) = kept()
    processor, content = cache.identity()[0].encode(), path.read_bytes()
    assert processor in content
    path.write_bytes(content.replace(processor, processor[::-1]))
    run(weight)
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "another processor" in line and "\n" not in line


def test_no_room_is_no_error(weight, caplog, monkeypatch) -> None:
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/proc/no-such-folder")
    run(weight)
    assert "the next start compiles" in caplog.text
