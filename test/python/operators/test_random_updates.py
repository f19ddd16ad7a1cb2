"""In-place programs against eager; see random_updates.py."""

import os

import random_updates

# Programs of one run; `make soak` sets many.
COUNT = int(os.environ.get("ANABRANCH_UPDATES", "80"))
SEED = 2000


def test_random_updates() -> None:
    wrong = [text for _, text in random_updates.failures(range(SEED, SEED + COUNT))]
    assert not wrong, "\n\n".join(wrong)
