"""torch_npu.testing.common_distributed: marks of tests of several ranks."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable
from typing import Any

__all__ = ["skipIfUnsupportMultiNPU"]


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Any], Any]:
    """A decorator that skips a test of more ranks than this host has processors."""
    there = os.cpu_count() or 1
    text = f"it needs {npu_number_needed} ranks, and the host has {there} processors"
    return unittest.skipIf(npu_number_needed > there, text)
