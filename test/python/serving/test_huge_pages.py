"""Memory in huge pages keeps its values, and stays as it is where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anabranch import extension, huge_pages

ROOM = 4 * huge_pages.SIZE


def in_huge_pages(address: int) -> int:
    """The bytes in huge pages of the mapping that has an address."""
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:
            begin, end = (int(place, 16) for place in first.split("-"))
            found = begin <= address < end
        elif found and first == "AnonHugePages:":
            return 1024 * int(rest[0])
    raise AssertionError(f"nothing is mapped at {address:#x}")


def gather(memory: torch.Tensor) -> bool:
    return extension.gather_huge_pages(memory.data_ptr(), memory.nbytes)


@pytest.mark.skipif(not huge_pages._are_allowed(), reason="no huge pages here")
def test_memory_gets_them_at_once_and_keeps_its_values() -> None:
    memory = torch.arange(ROOM // 8)
    if not gather(memory):
        pytest.skip("this system gathers no pages, or has too few")
    inside = memory.data_ptr() + huge_pages.SIZE
    assert in_huge_pages(inside) >= ROOM - 2 * huge_pages.SIZE
    assert torch.equal(memory, torch.arange(ROOM // 8))


def test_less_than_a_huge_page_stays() -> None:
    memory = torch.zeros(huge_pages.SIZE // 8)
    assert not gather(memory)  # a huge page, but its start is none of the memory's


@pytest.mark.parametrize("setting", ["always madvise [never]\n", None])
def test_the_administrator_may_refuse(monkeypatch, tmp_path, setting) -> None:
    path = tmp_path / "enabled"
    if setting:
        path.write_text(setting)
    monkeypatch.setattr(huge_pages, "_SETTING", path)
    monkeypatch.setattr(huge_pages, "_advise", lambda *_: pytest.fail("asked"))
    assert not gather(torch.zeros(ROOM, dtype=torch.int8))


def test_a_system_without_the_advice(monkeypatch, tmp_path) -> None:
    """Linux before 6.1 refuses to gather at once, and gathers when it has time."""
    path, asked = tmp_path / "enabled", []
    path.write_text("always [madvise] never\n")
    monkeypatch.setattr(huge_pages, "_SETTING", path)
    advise = lambda begin, end, advice: asked.append(advice) or len(asked) == 1
    monkeypatch.setattr(huge_pages, "_advise", advise)
    assert not gather(torch.zeros(ROOM, dtype=torch.int8))
    assert len(asked) == 2
