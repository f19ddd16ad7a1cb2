"""Makes dist/anabranch-*.whl, which carries its LLVM: wheel.py

A wheel is a zip: the Python files, the extension, and both libraries beside it
(the compiler with LLVM linked in). `wheel.py --editable` makes the sources
importable in this venv instead, entry points included.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME, VERSION = PROJECT["name"], PROJECT["version"]
INFO = f"{NAME}-{VERSION}.dist-info"
# One timestamp for every member: equal inputs make equal wheels.
EPOCH = (2026, 1, 1, 0, 0, 0)


def tag() -> str:
    """The glibc that the binaries were linked against is the oldest they run on."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    glibc = platform.libc_ver()[1].replace(".", "_")
    machine = platform.machine()
    return f"{python}-{python}-manylinux_{glibc}_{machine}"


def metadata() -> dict[str, str]:
    """The files of the dist-info folder, less RECORD."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {VERSION}",
        f"Summary: {PROJECT['description']}",
        f"License: {PROJECT['license']['text']}",
        f"Requires-Python: {PROJECT['requires-python']}",
        *(f"Requires-Dist: {name}" for name in PROJECT["dependencies"]),
    ]
    groups = {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    entries = []
    for group, names in groups.items():
        entries.append(f"[{group}]")
        entries += [f"{name} = {target}" for name, target in names.items()]
    wheel = [
        "Wheel-Version: 1.0",
        f"Generator: {NAME}",
        "Root-Is-Purelib: false",
        f"Tag: {tag()}",
    ]
    return {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": "\n".join(wheel) + "\n",
        "entry_points.txt": "\n".join(entries) + "\n",
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }


def python_files() -> list[Path]:
    """The modules, and what the report's page is made of."""
    subprocess.run([ROOT / "scripts" / "vendor.sh"], check=True)
    package = ROOT / "python" / NAME
    modules = [p for p in package.rglob("*.py*") if p.suffix in (".py", ".pyi")]
    assets = [p for p in (package / "assets").rglob("*") if p.is_file()]
    return sorted([*modules, *assets])


def built_files(staging: Path) -> None:
    """Builds what the wheel needs and installs it, stripped, under `staging`."""
    commands = [
        ["ninja", "-C", "build", "-j2", "all", "anabranch_compiler_static"],
        ["cmake", "--install", "build", "--component", "wheel", "--strip"]
        + ["--prefix", str(staging)],
    ]
    for command in commands:
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


class Wheel:
    """An archive that keeps the RECORD of what was put in."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record: list[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.record.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")

    def close(self) -> None:
        name = f"{INFO}/RECORD"
        self.archive.writestr(name, "\n".join([*self.record, f"{name},,"]) + "\n")
        self.archive.close()


def build_wheel() -> Path:
    staging = BUILD / "wheel-staging"
    subprocess.run(["rm", "-rf", str(staging)], check=True)
    built_files(staging)
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    path = folder / f"{NAME}-{VERSION}-{tag()}.whl"
    wheel = Wheel(path)
    for source in python_files():
        name = source.relative_to(ROOT / "python").as_posix()
        wheel.add(name, source.read_bytes())
    for source in sorted(p for p in staging.rglob("*") if p.is_file()):
        mode = source.stat().st_mode & 0o777
        wheel.add(source.relative_to(staging).as_posix(), source.read_bytes(), mode)
    for name, text in metadata().items():
        wheel.add(f"{INFO}/{name}", text.encode())
    wheel.close()
    return path


def install_editable() -> Path:
    """A path file and the entry points, as an editable install leaves them."""
    site = Path(sysconfig.get_path("purelib"))
    (site / f"{NAME}.pth").write_text(f"{ROOT / 'python'}\n")
    info = site / INFO
    info.mkdir(exist_ok=True)
    for name, text in metadata().items():
        (info / name).write_text(text)
    names = [f"{NAME}.pth", *(f"{INFO}/{name}" for name in metadata())]
    for script, target in PROJECT["scripts"].items():
        module, function = target.split(":")
        path = Path(sys.prefix) / "bin" / script
        path.write_text(
            f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\n"
            f"sys.exit({function}())\n"
        )
        path.chmod(0o755)
        names.append(f"../../../bin/{script}")
    record = [f"{name},," for name in [*names, f"{INFO}/RECORD"]]
    (info / "RECORD").write_text("\n".join(record) + "\n")
    (info / "INSTALLER").write_text(f"{NAME}\n")
    return site


def main() -> int:
    if sys.argv[1:] == ["--editable"]:
        install_editable()
        return 0
    path = build_wheel()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
