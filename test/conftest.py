"""Which tests run, and in which order."""

from __future__ import annotations

import covering
import file_order
import pytest


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    covering.leave_out(config, items)
    file_order.longest_first(items)
