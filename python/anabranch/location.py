"""Finds the line of the user's program that a node of a graph comes from."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

import torch
import torch.fx

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
# Frames that are not the user's: PyTorch's, this package's, those of layers over it,
# and the context managers that enter scopes.
_HIDDEN = [
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    contextlib.__file__,
]


def hide(path: str) -> None:
    """Frames of this file, or of files in this folder, no longer count as the user's."""
    path = os.path.abspath(path)
    _HIDDEN.append(path + os.sep if os.path.isdir(path) else path)


def is_hidden(file: str) -> bool:
    """Whether frames of this file do not count as the user's."""
    return file.startswith(tuple(_HIDDEN))


def location(node: torch.fx.Node) -> dict[str, Any]:
    """The innermost frame of the user's program; if there is none, the innermost frame."""
    frames = _frames(node.meta.get("stack_trace") or "")
    if not frames:
        return {"file": "", "line": 0, "function": "", "code": ""}
    users = [frame for frame in frames if not is_hidden(frame["file"])]
    return (users or frames)[-1]


def _frames(trace: str) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    for line in trace.splitlines():
        if match := _FRAME.fullmatch(line):
            frames.append(
                {
                    "file": match["file"],
                    "line": int(match["line"]),
                    "function": match["function"],
                    "code": "",
                }
            )
        elif frames and not frames[-1]["code"]:
            frames[-1]["code"] = line.strip()
    return frames


def user_line(node: torch.fx.Node) -> str:
    """The line for a message, as 'm.py:12, in forward: x = x + y'; "" when unknown."""
    found = location(node)
    if not found["file"]:
        return ""
    where = f"{found['file']}:{found['line']}, in {found['function']}"
    return f"{where}: {found['code']}" if found["code"] else where
