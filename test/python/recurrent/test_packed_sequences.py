"""Packed sequences of recurrent layers: one program for all lengths."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from checking import assert_near, assert_one_program, compiled
from torch import Tensor, nn
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch.nn.utils import rnn
from torch.utils._pytree import tree_leaves, tree_map

import anabranch

UNSORTED = ([3, 7, 5], [1, 2, 1], [4, 4, 4], [1, 1, 1])
SORTED = ([7, 5, 3], [6, 2, 2], [4, 4, 4], [1, 1, 1])


class Packed(nn.Module):
    def __init__(
        self, kind: type[nn.RNNBase], sort: bool = True, **options: Any
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(6, 8, **options)
        self.sort, self.batch_first = sort, self.layer.batch_first
        self.eval()

    def forward(self, x: Tensor, lengths: Tensor, state: Any = None) -> Any:
        packed = rnn.pack_padded_sequence(
            x * 2, lengths, self.batch_first, enforce_sorted=not self.sort
        )
        output, last = self.layer(packed, state)
        return (*rnn.pad_packed_sequence(output, self.batch_first), last)


def padded(model: Packed, batch: int = 3, steps: int = 7) -> Tensor:
    return torch.randn(*(batch, steps) if model.batch_first else (steps, batch), 6)


def state_of(layer: nn.RNNBase, batch: int) -> Any:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = [layer.proj_size or layer.hidden_size, layer.hidden_size]
    states = tuple(torch.randn(count, batch, width) for width in widths)
    return states if isinstance(layer, nn.LSTM) else states[1]


def to(value: Any, dtype: torch.dtype) -> Any:
    return tree_map(
        lambda t: t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t,
        value,
    )


OPTIONS = {
    "lstm of two directions": (nn.LSTM, {"bidirectional": True, "batch_first": True}),
    "lstm of two layers": (nn.LSTM, {"num_layers": 2, "sort": False}),
    "lstm projected": (
        nn.LSTM,
        {"num_layers": 2, "bidirectional": True, "proj_size": 3, "bias": False},
    ),
    "gru": (nn.GRU, {"num_layers": 2, "bidirectional": True, "dropout": 0.5}),
    "gru in order": (nn.GRU, {"batch_first": True, "sort": False}),
    "tanh": (nn.RNN, {"bidirectional": True, "batch_first": True}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "sort": False}),
}
CASES = [(name, torch.float32) for name in OPTIONS]
CASES += [(name, torch.bfloat16) for name in ("lstm of two directions", "gru")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_options(name: str, dtype: torch.dtype) -> None:
    kind, options = OPTIONS[name]
    # Half of the cases have states of the caller.
    given = list(OPTIONS).index(name) % 2 == 1 or dtype == torch.bfloat16
    model = Packed(kind, **options).to(dtype)
    exact = copy.deepcopy(model).double()
    run = anabranch.compile(model, fullgraph=True, freeze=not given)
    x = padded(model).to(dtype)
    state = to(state_of(model.layer, 3), dtype) if given else None
    with torch.no_grad():
        for lengths in UNSORTED if model.sort else SORTED:
            arguments = (x, torch.tensor(lengths), state)
            got, eager = run(*arguments), model(*arguments)
            assert_near(got, eager, exact(*to(arguments, torch.float64)))
    assert anabranch.counters.graphs == 1
    assert_one_program()


@pytest.mark.parametrize("sort", [False, True])
def test_one_program_runs_any_batch(sort: bool) -> None:
    model = Packed(nn.LSTM, sort, batch_first=True, bidirectional=True)
    run = anabranch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for batch, steps in ((3, 7), (5, 9), (2, 2), (40, 30)):
            lengths = torch.randint(1, steps + 1, (batch,))
            if not sort:
                lengths = lengths.sort(descending=True).values
            x = padded(model, batch, steps)
            torch.testing.assert_close(run(x, lengths), model(x, lengths))
    assert anabranch.counters.graphs == 1
    assert_one_program()


WRONG = {
    "order": (False, [3, 5, 2], "must be sorted in decreasing order"),
    "empty": (True, [3, 0, 2], "has to be greater than 0"),
    "negative": (False, [3, 2, -1], "has to be greater than 0"),
    "long": (True, [3, 8, 2], "longer than the input"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lengths(name: str) -> None:
    sort, lengths, message = WRONG[name]
    model = Packed(nn.GRU, sort)
    run = anabranch.compile(model, fullgraph=True)
    with torch.no_grad():
        run(padded(model), torch.tensor([3, 2, 2]))
        with pytest.raises(ValueError, match=message) as error:
            run(padded(model), torch.tensor(lengths))
    assert "test_packed_sequences.py" in str(error.value)


@pytest.mark.parametrize("sort", [False, True])
def test_wrong_arguments(sort: bool) -> None:
    model = Packed(nn.GRU, sort)
    lengths = torch.tensor([3, 2, 1])
    wrong = [
        (padded(model), lengths.unsqueeze(0), None),
        (padded(model), lengths, state_of(model.layer, 2)),
    ]
    if not sort:  # PyTorch takes the sequences that have a length
        wrong.append((padded(model), lengths[:2], None))
    for arguments in wrong:
        torch._dynamo.reset()
        errors = RuntimeError, ValueError, IndexError
        with torch.no_grad(), pytest.raises(errors):
            model(*arguments)
        with torch.no_grad(), pytest.raises(errors):
            anabranch.compile(model, fullgraph=True)(*arguments)


class Filled(nn.Module):
    """Steps that no sequence has, and a layer on packed rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.rows = nn.GRU(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        found = self.layer(packed)[0]
        found = rnn.PackedSequence(
            self.rows(found.data).relu(),
            found.batch_sizes,
            found.sorted_indices,
            found.unsorted_indices,
        )
        again = rnn.pad_packed_sequence(found, True, -1.5, total_length=9)
        return again, found.data, found.batch_sizes, found.unsorted_indices


def test_padding_and_packed_rows() -> None:
    model, x = Filled().eval(), torch.randn(7, 3, 6)
    run = anabranch.compile(model, fullgraph=True)
    with torch.no_grad():
        for lengths in UNSORTED:
            given = torch.tensor(lengths)
            torch.testing.assert_close(run(x, given), model(x, given))
        with pytest.raises(ValueError, match="total_length|for 9 or less"):
            run(torch.randn(11, 3, 6), torch.tensor([2, 10, 3]))
    assert_one_program()


class Given(nn.Module):
    """A model of sequences that its caller packs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.LSTM(6, 8, bidirectional=True)

    def forward(self, packed: rnn.PackedSequence) -> Any:
        return self.layer(packed)


def test_packed_arguments_and_results() -> None:
    model = Given().eval()
    run = anabranch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for lengths in UNSORTED[:2]:
            packed = rnn.pack_padded_sequence(
                torch.randn(7, 3, 6), torch.tensor(lengths), enforce_sorted=False
            )
            got, eager = run(packed), model(packed)
            assert isinstance(got[0], rnn.PackedSequence)
            torch.testing.assert_close([*got[0]], [*eager[0]])
            torch.testing.assert_close(got[1], eager[1])


def test_without_run_sizes() -> None:
    """The graph breaks at the sequences, and PyTorch runs the layer."""
    model, x = Packed(nn.GRU), torch.randn(7, 3, 6)
    run = compiled(model)
    with torch.no_grad():
        for lengths in UNSORTED[:2]:
            given = torch.tensor(lengths)
            torch.testing.assert_close(run(x, given), model(x, given))


def test_gradients_are_pytorchs() -> None:
    model, x = Packed(nn.LSTM), torch.randn(7, 3, 6)
    run, found = anabranch.compile(model), []
    for call in (run, model):
        call(x, torch.tensor([2, 7, 4]))[0].square().sum().backward()
        found.append([p.grad for p in model.parameters()])
        model.zero_grad()
    torch.testing.assert_close(*found)


def test_pytorch_sees_no_change() -> None:
    classes = nn.LSTM, nn.GRU, nn.RNN, nn.RNNBase
    functions = rnn.pack_padded_sequence, rnn.pad_packed_sequence

    def seen() -> Any:
        methods = [(k.__dict__.get("forward"), k.check_forward_args) for k in classes]
        return methods, [get_torch_obj_rule_map()[f] for f in functions]

    before, model = seen(), Packed(nn.LSTM)
    with torch.no_grad():
        anabranch.compile(model, fullgraph=True)(padded(model), torch.tensor([3, 2, 1]))
    assert seen() == before


@pytest.mark.parametrize("sort", [False, True])
def test_export(sort: bool, tmp_path: Any) -> None:
    model = Packed(nn.LSTM, sort, batch_first=True, bidirectional=True)
    steps = torch.export.Dim("steps", min=2, max=200)
    batch = torch.export.Dim("batch", min=2, max=100)
    path, lengths = tmp_path / "lstm.anb", torch.tensor([7, 5, 3])
    anabranch.export(
        model,
        path,
        (padded(model), lengths),
        dynamic_shapes=({0: batch, 1: steps}, {0: batch}),
    )
    package = anabranch.load(path)
    with torch.no_grad():
        for given in ([7, 5, 3], [4, 2], [9, 9, 8, 1]):
            x, lengths = padded(model, len(given), 9), torch.tensor(given)
            found = tree_leaves(package(x, lengths))
            torch.testing.assert_close(found, tree_leaves(model(x, lengths)))


def test_cache_compile(tmp_path: Any) -> None:
    model = Packed(nn.GRU)
    call = anabranch.cache_compile(model.forward, cache_dir=tmp_path)
    with torch.no_grad():
        for lengths in UNSORTED[:2]:
            given = torch.tensor(lengths)
            x = padded(model)
            torch.testing.assert_close(call(x, given), model(x, given))
    assert_one_program()
