"""Which versions of torch this Anabranch works with; others are refused.

Anabranch reads structures of Dynamo and AOTAutograd, which change between versions."""

from __future__ import annotations

import re
import warnings

from .config import any_torch

# The versions that were tested, from the first up to but without the second, as in
# pyproject.toml.
OLDEST = (2, 12)
BELOW = (2, 16)


def _wanted() -> str:
    oldest, below = (f"{major}.{minor}" for major, minor in (OLDEST, BELOW))
    return f"pip install 'torch>={oldest},<{below}'"


def missing() -> ImportError:
    """The error of whoever compiles models in a Python without torch."""
    return ImportError(
        f"anabranch compiles PyTorch models, and this Python has no torch: {_wanted()}."
        " anabranch.load and the wheel anabranch-runtime run packages without it.",
        name="torch",
    )


def check(version: str) -> None:
    """ImportError: the version was not tested. With ANABRANCH_ANY_TORCH set, it is a
    warning."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and OLDEST <= (int(numbers[1]), int(numbers[2])) < BELOW:
        return
    oldest, below = (f"{major}.{minor}" for major, minor in (OLDEST, BELOW))
    found = (
        f"this Anabranch works with torch {oldest} up to, and without, "
        f"{below}; this process has torch {version}"
    )
    if any_torch():
        warnings.warn(f"{found}, which is not tested", RuntimeWarning, stacklevel=2)
        return
    raise ImportError(
        f"{found}. Install one that fits ({_wanted()}), "
        "or an anabranch that was made for this torch. ANABRANCH_ANY_TORCH=1 tries "
        "it all the same.",
        name="torch",
    )
