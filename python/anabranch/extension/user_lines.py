"""Lines of the user's program, for the messages of a front end."""

from __future__ import annotations

import dataclasses

import torch.fx

from .. import location

__all__ = [
    "UserLine",
    "find_user_line",
    "hide_frames",
    "user_line",
]


@dataclasses.dataclass(frozen=True)
class UserLine:
    """A line of the user's program, with the function that it is in."""

    file: str
    line: int
    function: str
    code: str


def hide_frames(path: str) -> None:
    """Frames of this file, or of files in this folder, no longer count as the user's."""
    location.hide(path)


def find_user_line(node: torch.fx.Node) -> UserLine | None:
    """The innermost line of the user's program that a node comes from; None when
    unknown."""
    found = location.location(node)
    return UserLine(**found) if found["file"] else None


def user_line(node: torch.fx.Node) -> str:
    """The same line for a message, as `m.py:12, in forward: x = x + y`; "" when
    unknown."""
    return location.user_line(node)
