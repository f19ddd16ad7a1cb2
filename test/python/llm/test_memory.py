"""A language model must fit into the memory of the machine or the container."""

import pytest

from anabranch import _C, memory


def test_the_smaller_limit_counts(monkeypatch):
    monkeypatch.setattr(_C, "memory_room", lambda: None)
    free = memory.available()
    assert free > 0
    monkeypatch.setattr(_C, "memory_room", lambda: 5)
    assert memory.available() == 5
    monkeypatch.setattr(_C, "memory_room", lambda: 1 << 62)
    assert memory.available() < 1 << 62


def test_too_little_memory_is_named(monkeypatch):
    monkeypatch.setattr(_C, "memory_room", lambda: 3 << 20)
    memory.require(2 << 20, "loading", "take a smaller model")
    message = "loading needs 4 MiB and 3 MiB are available: take a smaller model"
    with pytest.raises(MemoryError, match=message):
        memory.require(4 << 20, "loading", "take a smaller model")
