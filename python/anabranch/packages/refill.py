"""Makes a package for new values of frozen weights: the program and its kernels stay.

A package keeps the values of weights as they are; opening it packs and folds them. So
another value needs another file of constants, and no compiler, as long as the compiler
knew nothing of the old value (describe/inputs.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any

import torch

CONSTANTS = "constants.safetensors"
LENGTH_BYTES = 8


class Refill:
    """The files of a package without the values of weights."""

    def __init__(self, folder: str, weights: Collection[str]) -> None:
        """Reads the package in `folder`; `weights` are the names of its weights."""
        self.files: dict[str, bytes] = {}
        for name in os.listdir(folder):
            if name != CONSTANTS:
                with open(os.path.join(folder, name), "rb") as file:
                    self.files[name] = file.read()
        with open(os.path.join(folder, CONSTANTS), "rb") as file:
            length = file.read(LENGTH_BYTES)
            self.head = length + file.read(int.from_bytes(length, "little"))
            self.places = self._places()
            self.kept: dict[str, bytes] = {}
            for name, (begin, end) in self.places.items():
                if name not in weights:
                    file.seek(len(self.head) + begin)
                    self.kept[name] = file.read(end - begin)

    def _places(self) -> dict[str, tuple[int, int]]:
        """Where the bytes of each constant begin and end after the head."""
        table: dict[str, Any] = json.loads(self.head[LENGTH_BYTES:])
        rows = {n: row for n, row in table.items() if "data_offsets" in row}
        return {name: tuple(row["data_offsets"]) for name, row in rows.items()}

    def write(self, weights: Mapping[str, torch.Tensor], folder: str) -> None:
        """Writes the package with these weights into a new folder."""
        os.makedirs(folder, 0o700)
        for name, content in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        with open(os.path.join(folder, CONSTANTS), "wb") as file:
            file.write(self.head)
            for name, (begin, end) in self.places.items():
                kept = name in self.kept
                content = self.kept[name] if kept else _bytes(weights[name])
                assert len(content) == end - begin
                file.seek(len(self.head) + begin)
                file.write(content)


def _bytes(weight: torch.Tensor) -> Any:
    """The elements in their order, as a buffer of bytes."""
    return memoryview(weight.contiguous().reshape(-1).view(torch.uint8).numpy())
