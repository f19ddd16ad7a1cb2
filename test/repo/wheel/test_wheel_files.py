"""Contents of the wheels and of the source archive: symbols, licences, equal bytes."""

from __future__ import annotations

import base64
import email
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

import anabranch
from repository import ROOT
from wheel_contents import check_age, check_names, check_pages, check_tag, programs
from wheel_support import attempt, hiding_prefix, run, wheel_named
from wheels import build, cross, pythons, sdist

pytestmark = pytest.mark.slow


def wheels_of(distributions: list[Path]) -> list[Path]:
    return [path for path in distributions if path.suffix == ".whl"]


def test_programs_need_an_old_system_only(
    distributions: list[Path], tmp_path: Path
) -> None:
    seen = 0
    for wheel in wheels_of(distributions):
        for program in programs(wheel, tmp_path):
            seen += 1
            check_age(program)
            if wheel.stem.endswith("aarch64"):
                check_pages(program)
    assert seen >= (5 if cross.missing() else 7)


def test_libraries_export_their_own_names_alone(
    distributions: list[Path], tmp_path: Path
) -> None:
    for wheel in wheels_of(distributions):
        for program in programs(wheel, tmp_path):
            if program.suffix == ".so":
                check_names(program)


def test_auditwheel_agrees(distributions: list[Path]) -> None:
    for wheel in wheels_of(distributions):
        check_tag(wheel)


def test_tags_and_record(distributions: list[Path]) -> None:
    tags = [path.name.split("-", 2)[2] for path in wheels_of(distributions)]
    known = [f"{pythons.wheel_tag(b)}-{build.PLATFORM}.whl" for b in ("cp311", "abi3")]
    assert set(tags) >= {known[0], f"py3-none-{build.PLATFORM}.whl"}
    if not cross.missing():
        assert f"py3-none-{cross.PLATFORM}.whl" in tags
    for wheel in wheels_of(distributions):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            record = next(n for n in names if n.endswith("/RECORD"))
            rows = archive.read(record).decode().splitlines()
            assert [row.split(",")[0] for row in rows] == names
            for row in rows[:-1]:
                name, digest, size = row.rsplit(",", 2)
                data = archive.read(name)
                code = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
                assert digest == f"sha256={code.decode().rstrip('=')}"
                assert int(size) == len(data)


def test_metadata_and_licences(distributions: list[Path]) -> None:
    inside = {"LLVM", "MLIR", "lld", "nanobind", "FlatBuffers", "nlohmann-json"}
    inside |= {"xxHash", "zstd", "zlib", "libstdc++"}
    for wheel in wheels_of(distributions):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            info = next(n for n in names if n.endswith("/METADATA"))
            text = email.message_from_bytes(archive.read(info))
            folder = info.rsplit("/", 1)[0]
            for name in text.get_all("License-File") or []:
                assert len(archive.read(f"{folder}/licenses/{name}")) > 300, name
        files = {name.removesuffix(".txt") for name in text.get_all("License-File")}
        is_compiler = text["Name"] == "anabranch"
        wanted = (
            inside
            if is_compiler
            else {"FlatBuffers", "nlohmann-json", "xxHash", "libstdc++"}
        )
        assert files >= wanted | {"LICENSE"}
        assert text["Description-Content-Type"] == "text/markdown"
        assert text.get_payload().lstrip().startswith("# Anabranch")
        assert text.get_all("Classifier")
        needs_torch = any(d.startswith("torch") for d in text.get_all("Requires-Dist"))
        assert needs_torch == is_compiler


def test_equal_inputs_make_equal_bytes(
    distributions: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second build, with other times of files, gives the same bytes."""
    (ROOT / "build" / "wheel" / "lib" / "libanabranch_runtime.so").unlink()
    again = build.Build(ROOT / "build", pythons.find())
    again.compile()
    for path in again.staging.rglob("*"):
        os.utime(path, (1e9, 1e9))
    for made in (again.runtime_wheel(tmp_path), sdist.write(tmp_path)):
        before = next(path for path in distributions if path.name == made.name)
        assert made.read_bytes() == before.read_bytes(), made.name
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    with zipfile.ZipFile(again.runtime_wheel(tmp_path)) as archive:
        times = {entry.date_time for entry in archive.infolist()}
    assert times == {(2009, 2, 13, 23, 31, 30)}


def test_development_files(distributions: list[Path], tmp_path: Path) -> None:
    """C and C++ programs build against the runtime's wheel, and run a package."""
    wheel = wheel_named(distributions, "anabranch_runtime-")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    run(*pip, "--disable-pip-version-check", "--target", tmp_path / "site", wheel)
    site = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    prefix = run(sys.executable, "-m", "anabranch_runtime", env=site).strip()
    options = ["-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19"]
    sources = ["-S", ROOT / "examples" / "05_deploy", "-B", tmp_path / "build"]
    run("cmake", "-G", "Ninja", *options, f"-DCMAKE_PREFIX_PATH={prefix}", *sources)
    run("ninja", "-C", tmp_path / "build")
    model = torch.nn.Linear(4, 3).eval()
    anabranch.export(model, tmp_path / "model.anb", (torch.ones(2, 4),))
    with torch.no_grad():
        wanted = model(torch.ones(2, 4)).sum().item()
    printed = run(tmp_path / "build" / "deploy", tmp_path / "model.anb", 1)
    total = re.search(r"output: 2 3 sum (\S+)", printed)
    assert total, printed
    assert float(total[1]) == pytest.approx(wanted, abs=1e-5)
    assert "output: 2 3" in run(tmp_path / "build" / "deploy_c", tmp_path / "model.anb")
    tool = Path(prefix) / "bin" / "anabranch-run"
    assert "f32[2, 3]" in run(tool, tmp_path / "model.anb")


def unpacked(distributions: list[Path], folder: Path) -> Path:
    archive = next(path for path in distributions if path.name.endswith(".tar.gz"))
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return next(folder.iterdir())


def test_sources_are_whole(distributions: list[Path], tmp_path: Path) -> None:
    """The archive has the files that git tracks and the drawing library, no built files."""
    root = unpacked(distributions, tmp_path)
    packed = {p.relative_to(root) for p in root.rglob("*") if p.is_file()}
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept = {Path(n) for n in listing.stdout.splitlines() if (ROOT / n).is_file()}
    extra = {p for p in packed if p.is_relative_to(sdist.VENDORED)}
    assert packed == kept | extra | {Path("PKG-INFO")}
    assert not [p for p in packed if p.suffix in (".so", ".o", ".whl")]


PIP_WHEEL = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
PIP_WHEEL += ["--no-build-isolation", "--disable-pip-version-check"]


def test_sources_refuse_a_machine_without_llvm(
    distributions: list[Path], tmp_path: Path
) -> None:
    root = unpacked(distributions, tmp_path / "source")
    hidden = hiding_prefix(tmp_path / "empty")
    done = attempt(*hidden, *PIP_WHEEL, "-w", tmp_path / "out", root)
    assert done.returncode != 0
    assert "cannot be compiled here" in done.stdout
    for package in ("libmlir-19-dev", "llvm-19-dev", "liblld-19-dev"):
        assert package in done.stdout
    assert "Traceback" not in done.stdout
    assert not list((tmp_path / "out").glob("*.whl"))


@pytest.mark.soak
def test_sources_compile_to_the_same_wheel(
    distributions: list[Path], tmp_path: Path
) -> None:
    """The archive has all files that a build needs."""
    root = unpacked(distributions, tmp_path / "source")
    run(*PIP_WHEEL, "-w", tmp_path, root)
    made = next(tmp_path.glob("*.whl"))
    before = next(path for path in distributions if path.name == made.name)
    with zipfile.ZipFile(made) as new, zipfile.ZipFile(before) as old:
        assert new.namelist() == old.namelist()
