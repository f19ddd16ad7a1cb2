"""A Debian of 64-bit Arm as the root of a process.

Its programs run in the emulator, which a namespace of users has for itself (Linux 6.7):
nothing of this machine changes. /host is this machine. Compilers are slow in an emulator,
so clang and its linker are this machine's, and make code for Arm."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from wheel_support import attempt, run
from wheels import debian

EMULATOR = "/usr/bin/qemu-aarch64-static"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# What Debian's pages tell people to install before they compile, and a shell.
TOOLS = (
    *("python3.11", "python3-dev", "python3-pip", "python3-venv", "ca-certificates"),
    *("dash", "coreutils", "grep", "sed", "findutils", "tar", "gzip"),
    *("binutils", "cmake", "ninja-build", "libc6-dev", "libstdc++-12-dev"),
    *("flatbuffers-compiler", "libflatbuffers-dev"),
    *("nlohmann-json3-dev", "libxxhash-dev"),
)
# The head of an ELF file for 64-bit Arm, and the bits of it that count.
MAGIC = r"\x7fELF\x02\x01\x01" + 9 * r"\x00" + r"\x02\x00\xb7\x00"
MASK = 7 * r"\xff" + r"\x00" + 8 * r"\xff" + r"\xfe\xff\xff\xff"
ENTER = f"""
set -e
root=$1; shift
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' ':arm64:M::{MAGIC}:{MASK}:{EMULATOR}:F' > /proc/sys/fs/binfmt_misc/register
mount --rbind / "$root/host"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind {LIBRARIES} "$root{LIBRARIES}"
exec /usr/sbin/chroot "$root" "$@"
"""
UNSHARE = ("unshare", "-Urm", "--propagation", "private", "sh", "-c", ENTER, "sh")
CALLED = '#!/bin/sh\nexec /host{program} {options}"$@"\n'
CLANG = "--target=aarch64-linux-gnu "


def _call(root: Path, name: str, program: str, options: str = "") -> None:
    """Lets a program of the root be one of this machine's. ccache takes a compiler that
    was written again for another one."""
    path = root / name
    text = CALLED.format(program=program, options=options)
    if path.exists() and path.read_bytes() == text.encode():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _share_programs(root: Path) -> None:
    for folder in ("host", "proc", "dev", "tmp", "lib64", LIBRARIES[1:]):
        (root / folder).mkdir(parents=True, exist_ok=True)
    loader = root / "lib64/ld-linux-x86-64.so.2"
    loader.unlink(missing_ok=True)
    loader.symlink_to(f"{LIBRARIES}/{loader.name}")
    llvm = "/usr/lib/llvm-19/bin"
    for name in ("clang", "clang++"):
        _call(root, f"usr/local/bin/{name}-19", f"{llvm}/{name}", CLANG)
    _call(root, f"{llvm[1:]}/ld.lld", f"{llvm}/ld.lld")
    _call(root, "usr/local/bin/ccache", "/usr/bin/ccache")


def make() -> Path:
    root = debian.kept("bookworm", *TOOLS, architecture="arm64")
    _share_programs(root)
    return root


def enter(root: Path, *command: object, **variables: str) -> str:
    """What a program prints whose root this is."""
    store = Path(os.environ.get("CCACHE_DIR", Path.home() / ".cache/ccache"))
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "CCACHE_DIR": f"/host{store}",
        **variables,
    }
    return run(*UNSHARE, root, *command, env=environment)


@functools.cache
def refusal() -> str | None:
    """Why this machine has no such root."""
    if not Path(EMULATOR).exists():
        return "qemu-user-static is not installed"
    script = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"
    done = attempt("unshare", "-Urm", "sh", "-c", script)
    if done.returncode:
        return (
            "the kernel keeps one list of emulators for all users: Linux 6.7 is needed"
        )
    return None
