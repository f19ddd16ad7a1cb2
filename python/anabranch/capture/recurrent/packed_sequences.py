"""`pack_padded_sequence` and `pad_packed_sequence` for a trace: by operators on tensors
whose sizes the run decides.

    pack   inputs[mask], counts[counts > 0]      mask: step < length; counts: its sums
    pad    where(valid, data[rows], value)

PyTorch's own read the lengths in C++, which no trace follows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, invert_permutation

from .packed_places import places


def pack_padded_sequence(
    input: Tensor,
    lengths: Any,
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """As PyTorch's. RuntimeError, when the program runs: a sequence has no step, or more
    than the input; sequences are not sorted, and `enforce_sorted` is on."""
    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    inputs = input.transpose(0, 1) if batch_first else input
    steps = inputs.shape[0]
    if lengths.dim() != 1:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got"
            f" {lengths.dim()}D tensor"
        )
    order = ranks = None
    _check_lengths(lengths, steps)
    if enforce_sorted:
        if lengths.shape[0] != inputs.shape[1]:
            raise RuntimeError(
                "Expected `len(lengths)` to be equal to batch_size, but got"
                f" {lengths.shape[0]} (batch_size={inputs.shape[1]})"
            )
        _check_order(lengths)
    else:
        ranks = _ranks(lengths)
        order = invert_permutation(ranks)
        lengths, inputs = lengths[order], inputs.index_select(1, order)
    mask = torch.arange(steps).unsqueeze(1) < lengths
    counts = mask.sum(1)
    return PackedSequence(inputs[mask], counts[counts > 0], order, ranks)


def _longer(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Whether sequence j is longer than i, bool [i, j], and whether j comes before i. No
    sizes are compared: one program serves all batches."""
    number = torch.arange(lengths.shape[0])
    before = number < number.unsqueeze(1)
    return lengths > lengths.unsqueeze(1), before


def _ranks(lengths: Tensor) -> Tensor:
    """The place of each sequence in the order by decreasing length. Equal ones keep
    theirs, as in PyTorch's sort on CPUs."""
    longer, before = _longer(lengths)
    equal = lengths == lengths.unsqueeze(1)
    return (longer | (equal & before)).sum(1)


def _check_order(lengths: Tensor) -> None:
    longer, before = _longer(lengths)
    sorted_pairs = before | ~longer
    torch._assert_scalar(
        _count(sorted_pairs) >= _count(torch.ones_like(sorted_pairs)),
        "`lengths` array must be sorted in decreasing order when"
        " `enforce_sorted` is True. You can pass `enforce_sorted=False` to"
        " pack_padded_sequence and/or pack_sequence to sidestep this"
        " requirement if you do not need ONNX exportability.",
    )


def _check_lengths(lengths: Tensor, steps: int) -> None:
    every = torch.ones_like(lengths, dtype=torch.bool)
    torch._assert_scalar(
        _count(lengths > 0) >= _count(every),
        "Length of all samples has to be greater than 0, but found an element in"
        " 'lengths' that is <= 0",
    )
    torch._assert_scalar(
        _count(lengths <= steps) >= _count(every),
        "'lengths' has a sequence that is longer than the input",
    )


def _count(mask: Tensor) -> int:
    """How many elements are true: a number that the run decides. A check of two such
    numbers has its own words; a bound that the trace knows would be a limit of the
    program, whose error names an argument of its own."""
    return mask.sum().item()


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """As PyTorch's. RuntimeError, when the program runs: there are more steps than
    `total_length`."""
    data, sizes, _, order = sequence
    steps = sizes.shape[0]
    length = steps
    if total_length is not None:
        length = total_length
        torch._assert_scalar(
            steps <= length,
            "Expected total_length to be at least the length of the longest"
            " sequence in input",
        )
    batch = batch_of(sequence)
    lengths = (sizes.unsqueeze(1) > torch.arange(batch)).sum(0)
    if total_length is not None:
        step = torch.arange(length)
        sizes = torch.where(step < steps, sizes[step.clamp(max=steps - 1)], 0)
    valid, rows = places(sizes, batch)
    valid = valid.view(length, batch, *[1] * (data.dim() - 1))
    padded = torch.where(valid, data[rows], padding_value)
    if batch_first:
        padded = padded.transpose(0, 1)
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order]


def batch_of(sequence: PackedSequence) -> int:
    """How many sequences there are: as many as the first step has."""
    if sequence.unsorted_indices is not None:
        return sequence.unsorted_indices.shape[0]
    return sequence.batch_sizes[0].item()
