"""Which versions of torch this Anabranch works with, and the refusal of others.

Anabranch reads what Dynamo and AOTAutograd hand over, and their forms change
between versions of torch."""

from __future__ import annotations

import re
import warnings

from .config import any_torch

# The tested range, as pyproject.toml has it: from the first, below the second.
OLDEST = (2, 13)
BELOW = (2, 14)


def check(version: str) -> None:
    """Raises ImportError for a version outside of the tested range, or warns of it
    where ANABRANCH_ANY_TORCH is set."""
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
        f"{found}. Install one that fits (pip install 'torch>={oldest},<{below}'), "
        "or an anabranch that was made for this torch. ANABRANCH_ANY_TORCH=1 tries "
        "it all the same.",
        name="torch",
    )
