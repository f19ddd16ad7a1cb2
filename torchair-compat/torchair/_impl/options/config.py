"""CompilerConfig: the tree of options, made from the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .engine import engine_options
from .table import EMPTY_GROUPS, ROWS
from .tree import Group, Option

__all__ = ["CompilerConfig", "apply_flat", "raw"]


class CompilerConfig(Group):
    """Every option of the backend, such as `config.debug.graph_dump.type = "pbtxt"`.

    An assignment checks its value. README.md lists all options, with their values and
    their effect on this host. AttributeError: there is no such option.
    """

    # Whether static kernels that an earlier run has made are used: npugraph_ex has an
    # option for it.
    reuses_static_kernels: bool

    def __init__(self) -> None:
        super().__init__("")
        object.__setattr__(self, "reuses_static_kernels", True)
        for row in ROWS:
            *parents, name = row.path.split(".")
            self._group(parents)._members[name] = Option(row)
        for path in EMPTY_GROUPS:
            self._group(path.split("."))

    def _group(self, parents: list[str]) -> Group:
        group: Group = self
        for name in parents:
            path = group._path_of(name)
            group = group._members.setdefault(name, Group(path))
        return group

    def _title(self) -> str:
        return "CompilerConfig"

    def as_dict(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(local options, global options), named as in the graph engine."""
        return engine_options(self)


def apply_flat(config: CompilerConfig, options: Mapping[str, Any]) -> None:
    """Writes the flat options of `torch.compile(options=...)` into the config.
    ValueError: an option does not exist."""
    rows = {row.flat.removeprefix("-"): row for row in ROWS if row.flat}
    for name, value in options.items():
        if name not in rows:
            raise ValueError(
                f"Invalid option '{name}', allowed options: {sorted(rows)}"
            )
        row = rows[name]
        if row.flat.startswith("-") and value in (True, False):
            value = not value
        *parents, last = row.path.split(".")
        group: Any = config
        for parent in parents:
            group = getattr(group, parent)
        setattr(group, last, value)


def raw(config: CompilerConfig, path: str) -> Any:
    """The value of an option, as it was assigned."""
    return config._raw()[path]
