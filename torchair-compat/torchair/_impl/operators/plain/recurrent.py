"""Recurrent layers.

After Ascend's API reference of torch_npu, pages npu_lstm and npu_gru, op-plugin's schemas
and tests, and the formulas of torch.nn.LSTM and torch.nn.GRU, whose order of gates the
weights have. Everything is computed in f32, and rounded once."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_DTYPES = (torch.float16, torch.float32)
_Eight = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _cell(sums: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """(h, c, i, j, f, o, tanh(c)) of a step, by the sums (b, 4 h) of its gates."""
    first, second, third, fourth = sums.chunk(4, -1)
    i, f, o = first.sigmoid(), second.sigmoid(), fourth.sigmoid()
    j = third.tanh()
    c = f * c + i * j
    wide = c.tanh()
    return o * wide, c, i, j, f, o, wide


def _check_floats(name: str, tensors: dict[str, Tensor | None]) -> None:
    for what, tensor in tensors.items():
        check_dtype(tensor, name, what, _DTYPES)


def _check_rank(name: str, what: str, tensor: Tensor, rank: int, wanted: str) -> None:
    shape = tuple(tensor.shape)
    check(len(shape) == rank, name, f"{what} must be {wanted}, got {shape}")


def _check_state(
    name: str, what: str, state: Tensor, batch: int, hidden: int
) -> Tensor:
    check_shape(state, name, what, (batch, hidden), (1, batch, hidden))
    return state.to(torch.float32).view(batch, hidden)


@npu_operator
def npu_lstm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    seq_mask: Tensor,
    h: Tensor,
    c: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    flag_seq: bool,
    direction: bool,
) -> _Eight:
    """A layer of long short-term memory: y, h, c, the gates i, j, f and o, and tanh(c) of
    each step, (steps, b, hidden) in input's dtype.

    input            (steps, b, in)
    weight, bias     (in + hidden, 4 * hidden), first of the input, then of h, and (4 *
                     hidden,): i, f, j, o. Without `has_biases` the bias is not added
    h, c             (b, hidden) or (1, b, hidden)
    seq_mask, train  have no effect
    direction        the last step is the first

    RuntimeError: another shape or dtype, a dropout, several layers, both directions, or
    batch_first or flag_seq, which the page forbids.
    """
    name = "npu_lstm"
    for what, given, only in (
        ("num_layers", num_layers, 1),
        ("dropout", dropout, 0),
        ("bidirectional", bidirectional, False),
        ("batch_first", batch_first, False),
        ("flag_seq", flag_seq, False),
    ):
        check(given == only, name, f"{what} must be {only}, got {given}")
    floats = {"input": input, "weight": weight, "bias": bias, "h": h, "c": c}
    _check_floats(name, {**floats})
    _check_rank(name, "input", input, 3, "(steps, b, in)")
    _check_rank(name, "bias", bias, 1, "(4 * hidden,)")
    check(bias.shape[0] % 4 == 0, name, f"bias must have 4 gates, got {bias.shape[0]}")
    hidden, batch = bias.shape[0] // 4, input.shape[1]
    check_shape(weight, name, "weight", (input.shape[2] + hidden, 4 * hidden))
    state = _check_state(name, "h", h, batch, hidden)
    memory = _check_state(name, "c", c, batch, hidden)
    wide = weight.to(torch.float32)
    sums = input.to(torch.float32) @ wide[: input.shape[2]]
    if has_biases:
        sums = sums + bias.to(torch.float32)
    turn = wide[input.shape[2] :]
    made = []
    for step in sums.flip(0).unbind() if direction else sums.unbind():
        made.append(_cell(step + state @ turn, memory))
        state, memory = made[-1][:2]
    steps = made[::-1] if direction else made
    results = [torch.stack(part).to(input.dtype) for part in zip(*steps)]
    y, cells, i, j, f, o, tanhc = results
    return y, y.clone(), cells, i, j, f, o, tanhc


@npu_operator
def npu_lstm_cell(
    input: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    c: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> _Eight:
    """A step of npu_lstm: y (1, b, hidden), h and c (b, hidden), i, j, f, o and tanh(c)
    (1, b, hidden) in input's dtype.

    input       (b, in)
    w_ih, w_hh  (in, 4 * hidden) and (hidden, 4 * hidden)
    h, c        (b, hidden)
    b_ih, b_hh  (4 * hidden,), both or none

    RuntimeError: another shape or dtype.
    """
    name = "npu_lstm_cell"
    floats = {"input": input, "w_ih": w_ih, "w_hh": w_hh, "h": h, "c": c}
    _check_floats(name, {**floats, "b_ih": b_ih, "b_hh": b_hh})
    _check_rank(name, "input", input, 2, "(b, in)")
    _check_rank(name, "w_hh", w_hh, 2, "(hidden, 4 * hidden)")
    hidden, batch = w_hh.shape[0], input.shape[0]
    check_shape(w_hh, name, "w_hh", (hidden, 4 * hidden))
    check_shape(w_ih, name, "w_ih", (input.shape[1], 4 * hidden))
    check_shape(h, name, "h", (batch, hidden))
    check_shape(c, name, "c", (batch, hidden))
    both = (b_ih is None) == (b_hh is None)
    check(both, name, "b_ih and b_hh must both be given, or none")
    sums = input.to(torch.float32) @ w_ih.to(torch.float32)
    sums = sums + h.to(torch.float32) @ w_hh.to(torch.float32)
    if b_ih is not None and b_hh is not None:
        for what, given in (("b_ih", b_ih), ("b_hh", b_hh)):
            check_shape(given, name, what, (4 * hidden,))
        sums = sums + b_ih.to(torch.float32) + b_hh.to(torch.float32)
    made = _cell(sums, c.to(torch.float32))
    new, memory, i, j, f, o, tanhc = (part.to(input.dtype) for part in made)
    gates = [part.unsqueeze(0) for part in (i, j, f, o, tanhc)]
    return new.unsqueeze(0), new.clone(), memory, *gates


@npu_operator
def npu_gru(
    input: Tensor,
    hx: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    seq_length: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A layer of gated recurrent units: y, h, the gates `update` and `reset`, the new
    value, and its part of h, each of all steps, (steps, b, hidden) in bias_input's dtype.

    input                        (steps, b, in)
    hx                           (b, hidden) or (1, b, hidden)
    weight_input, weight_hidden  (in, 3 * hidden) and (hidden, 3 * hidden): reset, update,
                                 new
    bias_input, bias_hidden      (3 * hidden,); they are always added

    The other arguments have no effect: it is one layer from the first step to the last.
    RuntimeError: another shape or dtype.
    """
    name = "npu_gru"
    floats = {
        "input": input,
        "hx": hx,
        "weight_input": weight_input,
        "weight_hidden": weight_hidden,
        "bias_input": bias_input,
        "bias_hidden": bias_hidden,
    }
    _check_floats(name, {**floats})
    _check_rank(name, "input", input, 3, "(steps, b, in)")
    _check_rank(name, "weight_hidden", weight_hidden, 2, "(hidden, 3 * hidden)")
    hidden = weight_hidden.shape[0]
    check_shape(weight_hidden, name, "weight_hidden", (hidden, 3 * hidden))
    check_shape(weight_input, name, "weight_input", (input.shape[2], 3 * hidden))
    for what, bias in (("bias_input", bias_input), ("bias_hidden", bias_hidden)):
        check_shape(bias, name, what, (3 * hidden,))
    state = _check_state(name, "hx", hx, input.shape[1], hidden)
    sums = input.to(torch.float32) @ weight_input.to(torch.float32)
    sums = sums + bias_input.to(torch.float32)
    turn, shift = weight_hidden.to(torch.float32), bias_hidden.to(torch.float32)
    made = []
    for step in sums.unbind():
        resets, updates, own = step.chunk(3, -1)
        by_reset, by_update, hidden_new = (state @ turn + shift).chunk(3, -1)
        reset = (resets + by_reset).sigmoid()
        update = (updates + by_update).sigmoid()
        new = (own + reset * hidden_new).tanh()
        state = (1 - update) * new + update * state
        made.append((state, update, reset, new, hidden_new))
    dtype = bias_input.dtype
    y, *parts = (torch.stack(part).to(dtype) for part in zip(*made))
    update, reset, new, hidden_new = parts
    return y, y.clone(), update, reset, new, hidden_new
