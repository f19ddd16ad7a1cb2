"""Makes the wheels and the source distribution in dist/: wheel.py

One wheel of the compiler for each Python that this machine has, the wheels of the
runtime for this machine and for 64-bit Arm, and the sdist. `wheel.py --aarch64` makes
the wheels of the compiler for 64-bit Arm instead, and `wheel.py --editable` makes the
sources importable in this venv, entry points included.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from wheels import build, cross, pythons, sdist
from wheels.project import COMPILER, ROOT, entry_points, metadata


def make_distributions() -> list[Path]:
    subprocess.run([ROOT / "scripts" / "vendor.sh"], check=True)
    found = pythons.find()
    versions = [python.version for python in found]
    for version in pythons.SUPPORTED:
        if version not in versions:
            print(f"no wheel is made with CPython {version}: it is not here")
    made = build.Build(ROOT / "build", found)
    made.configure()
    made.compile()
    folder = ROOT / "dist"
    wheels = [made.compiler_wheel(binding, folder) for binding in made.bindings]
    wheels.append(made.runtime_wheel(folder))
    if reason := cross.missing():
        print(f"no wheel is made for 64-bit Arm: {reason}")
    else:
        wheels.append(cross.runtime_wheel(folder))
    return [*wheels, sdist.write(folder)]


def make_compiler_for_arm() -> list[Path]:
    if reason := cross.missing():
        raise SystemExit(f"wheel.py: {reason}")
    return cross.compiler_wheels(ROOT / "dist", Path(sys.executable))


# torchair-compat is not put on the path of every process: other packages take its
# torch_npu for an NPU if they can import it.
COMPAT = "torchair-compat"
COMPAT_LINE = (
    "import os, sys; os.environ.get('ANABRANCH_NO_NPU') or sys.path.append({path!r})\n"
)


def install_editable() -> Path:
    """Writes the path files and entry points that an editable install writes."""
    site = Path(sysconfig.get_path("purelib"))
    name = COMPILER.name
    (site / f"{name}.pth").write_text(f"{ROOT / 'python'}\n")
    line = COMPAT_LINE.format(path=str(ROOT / COMPAT))
    (site / f"{COMPAT}.pth").write_text(line)
    info = site / COMPILER.info
    info.mkdir(exist_ok=True)
    files = {
        "METADATA": metadata(COMPILER, []),
        "entry_points.txt": entry_points(COMPILER),
    }
    for file, text in files.items():
        (info / file).write_text(text, encoding="utf-8")
    names = [f"{name}.pth", f"{COMPAT}.pth"]
    names += [f"{COMPILER.info}/{file}" for file in files]
    for script, target in COMPILER.table["scripts"].items():
        names.append(f"../../../bin/{_write_script(script, target).name}")
    record = [f"{entry},," for entry in [*names, f"{COMPILER.info}/RECORD"]]
    (info / "RECORD").write_text("\n".join(record) + "\n")
    (info / "INSTALLER").write_text(f"{name}\n")
    return site


def _write_script(script: str, target: str) -> Path:
    module, function = target.split(":")
    path = Path(sys.prefix) / "bin" / script
    path.write_text(
        f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\n"
        f"sys.exit({function}())\n"
    )
    path.chmod(0o755)
    return path


def main() -> int:
    if sys.argv[1:] == ["--editable"]:
        install_editable()
        return 0
    make = make_compiler_for_arm if "--aarch64" in sys.argv else make_distributions
    for path in make():
        size = path.stat().st_size / 2**20
        print(f"{path.relative_to(ROOT)}: {size:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
