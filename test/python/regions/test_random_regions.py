"""Random programs with regions and sizes that the run decides are one program and equal
PyTorch, by support/random_regions.py. ANABRANCH_REGIONS sets their number."""

from __future__ import annotations

import os

import pytest
import random_regions

# None of these is refused by PyTorch. The package of 5 runs in C++, too. The others have
# regions that write, within branches.
SEEDS = (5, 3600016, 9000000, 9000075)
COUNT = int(os.environ.get("ANABRANCH_REGIONS", "0"))


@pytest.mark.parametrize("seed", [*SEEDS, *range(1000, 1000 + COUNT)])
def test_random_regions(seed: int) -> None:
    program = random_regions.program_of(seed)
    outcome, text = random_regions.outcome(program)
    allowed = {random_regions.RIGHT}
    if seed not in SEEDS:
        allowed.add(random_regions.REFUSED)
    assert outcome in allowed, f"{outcome}: {program.text}{text}"
