"""super_kernel checks options that only an NPU has. They have no effect."""

from __future__ import annotations

import warnings

import pytest

from torchair._impl.errors import UnsupportedOption
from torchair._impl.marks.super_options import effective_options, warn_without_effect

MISTAKES = [
    ("speed=1", "no option 'speed'; known: stream-fusion, strict-scope-check, feed"),
    ("stream-fusion", "'stream-fusion' is no option"),
    ("feed-sync-all", "'feed-sync-all' is no option"),
    ("stream-fusion=2", "stream-fusion must be 0 or 1, got '2'"),
    ("debug-aic-num=0", "debug-aic-num must be above zero, got '0'"),
    ("debug-aiv-num=-3", "debug-aiv-num must be above zero"),
    ("feed-sync-all=yes", "feed-sync-all must be 0 or 1"),
    ("dcci-disable-on-kernel=a,,b", "dcci-disable-on-kernel must be operators"),
]


@pytest.mark.checklist("T101")
@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_a_warning_or_an_error(text, message) -> None:
    with pytest.warns(UserWarning, match=f"{message}.*; it is ignored"):
        assert effective_options(f"stream-fusion=1:{text}") == "stream-fusion=1"
    with pytest.raises(UnsupportedOption, match=message):
        effective_options(f"{text}:strict-scope-check=abort")


@pytest.mark.checklist("T101")
def test_only_options_of_the_compiler_have_an_effect() -> None:
    text = "feed-sync-all=1:dcci-before-kernel-start=MatMul, Add:stream-fusion = 1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert effective_options(text) == "stream-fusion=1"
    with pytest.warns(UserWarning, match="has no effect") as caught:
        warn_without_effect(text)
    assert len(caught) == 2
