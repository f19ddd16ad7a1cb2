"""Runs a part of the random combinations of options that `make soak` runs."""

from __future__ import annotations

import pytest

import random_options


@pytest.mark.parametrize("seed", range(12))
def test_equal_or_a_clear_error(seed, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    random_options.run_case(seed)


def test_an_unclear_error_is_a_failure(monkeypatch) -> None:
    def fail(*_):
        raise RuntimeError("what?")

    monkeypatch.setattr(random_options, "_compare", fail)
    with pytest.raises(AssertionError, match="seed 3: .*\nRuntimeError: what"):
        random_options.run_case(3)
