"""The options of groups of processes."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["ProcessGroupHCCL"]


class ProcessGroupHCCL:
    """The class of groups whose backend is "hccl". Here such groups are of gloo."""

    class Options:
        """Options of a group. They are stored; gloo reads none."""

        def __init__(self) -> None:
            self.hccl_config: dict[str, Any] = {}
            self.is_high_priority_stream = False
            self.op_timeout = datetime.timedelta(minutes=30)
            self.global_ranks_in_group: list[int] = []
            self.group_id = ""
