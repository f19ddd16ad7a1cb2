"""The platform over a stand-in for vLLM's CPU platform. Needs no vLLM."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from anabranch_vllm import settings


class CpuPlatform:
    """Changes the compilation as vLLM's CPU platform does."""

    @classmethod
    def check_and_update_config(cls, vllm_config) -> None:
        compilation = vllm_config.compilation_config
        if compilation.mode == settings.Mode.VLLM:
            compilation.mode = settings.Mode.TRACE_ONCE
            compilation.backend = "inductor"
        if vllm_config.lora_config is not None:
            compilation.mode = settings.Mode.NONE


@pytest.fixture
def platform(monkeypatch):
    for name in ("vllm", "vllm.platforms", "vllm.platforms.cpu"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["vllm.platforms.cpu"].CpuPlatform = CpuPlatform
    monkeypatch.delitem(sys.modules, "anabranch_vllm.cpu_platform", raising=False)
    yield importlib.import_module("anabranch_vllm.cpu_platform").AnabranchPlatform
    del sys.modules["anabranch_vllm.cpu_platform"]


def settled(platform, mode, backend, lora=None) -> tuple[int, str]:
    """The mode and backend after the platform's hook."""
    compilation = SimpleNamespace(mode=mode, backend=backend)
    config = SimpleNamespace(compilation_config=compilation, lora_config=lora)
    platform.check_and_update_config(config)
    return compilation.mode, compilation.backend


@pytest.mark.parametrize("backend", ["", "inductor", "anabranch"])
def test_the_default_is_anabranch(platform, backend) -> None:
    wanted = (settings.Mode.TRACE_ONCE, settings.BACKEND)
    assert settled(platform, settings.Mode.VLLM, backend) == wanted


def test_what_the_cpu_platform_does_not_compile_stays_so(platform) -> None:
    mode, backend = settled(platform, settings.Mode.VLLM, "inductor", lora=object())
    assert mode == settings.Mode.NONE
    assert backend != settings.BACKEND


@pytest.mark.parametrize(
    ("mode", "backend"),
    [(settings.Mode.NONE, "inductor"), (settings.Mode.TRACE_ONCE, "inductor")],
)
def test_another_choice_is_kept(platform, mode, backend) -> None:
    assert settled(platform, mode, backend) == (mode, backend)
