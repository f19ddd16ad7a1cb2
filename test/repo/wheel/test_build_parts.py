"""What a build from the sources needs: the compiler LLVM, the runtime less; and which
processors have either."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import wheel_support  # noqa: F401 - finds `wheels`
from wheels import backend, toolchain

NOWHERE = {"llvm-19-dev": "/nonexistent/LLVMConfig.cmake"}


@pytest.fixture(autouse=True)
def only_these_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.touch()
    monkeypatch.setattr(toolchain, "RUNTIME", {"cmake": str(here)})
    monkeypatch.setattr(toolchain, "COMPILER", NOWHERE)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_runtime_needs_no_llvm(monkeypatch, machine: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert toolchain.refusal("runtime") is None
    assert "apt-get install llvm-19-dev\n" in (toolchain.refusal("compiler") or "")


def test_another_processor_is_named(monkeypatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    for part in backend.PARTS:
        assert toolchain.refusal(part) == (
            "Anabranch runs on Linux on x86-64 and 64-bit Arm only; this is "
            "Linux on riscv64"
        )


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(SystemExit, match="part=tools: the parts are compiler and run"):
        backend.get_requires_for_build_wheel({"part": "tools"})
