"""nn.LSTM, nn.GRU and nn.RNN: loops over time of one program."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import checking
import pytest
import torch
from checking import assert_one_program, compiled, meaningful_strides
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves, tree_map

import anabranch
from anabranch.capture import frames


class Recurrent(nn.Module):
    def __init__(self, layer: type[nn.RNNBase], *sizes: int, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = layer(*sizes, **options)
        self.eval()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.layer(x, state)


def state_of(layer: nn.RNNBase, batch: int | None) -> Any:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    rows = [] if batch is None else [batch]
    widths = [layer.proj_size or layer.hidden_size, layer.hidden_size]
    states = tuple(torch.randn(count, *rows, width) for width in widths)
    return states if isinstance(layer, nn.LSTM) else states[1]


def assert_near(got: Any, eager: Any, exact: Any) -> None:
    """Near the exact results, and with eager's strides."""
    checking.assert_near(got, eager, exact)
    for ours, theirs in zip(tree_leaves(got), tree_leaves(eager), strict=True):
        assert meaningful_strides(ours) == meaningful_strides(theirs)


def double(value: Any) -> Any:
    return tree_map(lambda t: t.double() if isinstance(t, Tensor) else t, value)


OPTIONS = {
    "lstm of two layers": (
        nn.LSTM,
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
        (3, 5),
    ),
    "lstm projected": (nn.LSTM, {"proj_size": 4, "num_layers": 2}, (4, 2)),
    "lstm without biases": (
        nn.LSTM,
        {"bias": False, "proj_size": 3, "bidirectional": True},
        (2, 1),
    ),
    "gru": (nn.GRU, {"num_layers": 2, "bidirectional": True, "dropout": 0.5}, (5, 3)),
    "tanh": (nn.RNN, {"bidirectional": True}, (6, 3)),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bias": False}, (6, 3)),
    "unbatched": (nn.LSTM, {"batch_first": True}, (5,)),
    "one step": (nn.GRU, {"bias": False, "batch_first": True}, (3, 1)),
}


NARROW = ("lstm of two layers", "gru")
CASES = [(name, torch.float32) for name in OPTIONS]
CASES += [(name, torch.bfloat16) for name in NARROW]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_options(name: str, dtype: torch.dtype) -> None:
    kind, options, rows = OPTIONS[name]
    model = Recurrent(kind, 6, 8, **options).to(dtype)
    x = torch.randn(*rows, 6).to(dtype)
    batch = None if len(rows) == 1 else rows[0 if model.layer.batch_first else 1]
    state = tree_map(lambda t: t.to(dtype), state_of(model.layer, batch))
    freeze = list(OPTIONS).index(name) % 2 == 0
    run = compiled(model, fullgraph=True, options={"freeze": freeze})
    given = (x, state) if len(rows) == 2 else (x,)
    with torch.no_grad():
        got, eager = run(*given), model(*given)
        assert_near(got, eager, copy.deepcopy(model).double()(*double(given)))
    assert_one_program()


def test_one_program_runs_any_length() -> None:
    model = Recurrent(nn.GRU, 6, 8, batch_first=True)
    run = compiled(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for length in (7, 100, 2):
            x = torch.randn(3, length, 6)
            torch.testing.assert_close(run(x), model(x))
        assert anabranch.counters.graphs == 1
        for call in (model, run):
            with pytest.raises(RuntimeError, match="length to be larger than 0"):
                call(torch.randn(3, 0, 6))


def test_steps_are_at_the_line_of_the_layer(tmp_path: Any) -> None:
    model, x = Recurrent(nn.RNN, 6, 8, num_layers=2), torch.randn(4, 2, 6)
    with torch.no_grad():
        compiled(model, fullgraph=True, options={"dump": str(tmp_path)})(x)
    (graph,) = (json.loads(f.read_text()) for f in tmp_path.glob("*.graph.json"))
    assert len(graph["regions"]) == 2
    nodes = [node for region in graph["regions"] for node in region["nodes"]]
    assert {Path(node["loc"]["file"]).name for node in nodes} == {Path(__file__).name}


def test_weights_may_change() -> None:
    model = Recurrent(nn.LSTM, 6, 8)
    run = compiled(model, fullgraph=True)
    x = torch.randn(4, 2, 6)
    with torch.no_grad():
        run(x)
        model.layer.weight_hh_l0.mul_(2)
        model.layer.bias_hh_l0.add_(1)
        torch.testing.assert_close(run(x), model(x))


def test_other_backends_see_no_change() -> None:
    model, x = Recurrent(nn.GRU, 6, 8), torch.randn(4, 2, 6)
    operator = torch.ops.aten.gru.input
    before = dict(operator.py_kernels)
    with torch.no_grad():
        compiled(model, fullgraph=True)(x)
        other = torch.compile(model, backend="eager", fullgraph=True)
        with pytest.raises(RuntimeError, match="RNN, GRU, or LSTM"):
            other(x)
    assert not torch._dynamo.config.allow_rnn
    assert operator.py_kernels == before
    assert operator in torch._decomp.decomposition_table


def test_only_marked_backends_take_layers() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        return module.forward

    assert not frames.backend_has(backend, frames._RECURRENT)
    marked = frames.takes_recurrent_layers(backend)
    assert frames.backend_has(marked, frames._RECURRENT)


def test_gradients_are_pytorchs() -> None:
    model, x = Recurrent(nn.LSTM, 6, 8, num_layers=2), torch.randn(4, 2, 6)
    run = compiled(model)
    found = []
    for call in (run, model):
        call(x)[0].square().sum().backward()
        found.append([p.grad for p in model.parameters()])
        model.zero_grad()
    torch.testing.assert_close(*found)


def test_dropout_of_a_model_in_training() -> None:
    model = Recurrent(nn.GRU, 6, 32, num_layers=2, dropout=0.5).train()
    x = torch.randn(4, 8, 6)
    run = compiled(model, fullgraph=True)
    with torch.no_grad():
        first, second = run(x)[1], run(x)[1]
    torch.testing.assert_close(first[0], second[0])
    assert not torch.equal(first[1], second[1])


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x)[0]


@pytest.mark.parametrize("outside", [False, True])
def test_autocast_is_pytorchs(outside: bool) -> None:
    model, x = Mixed().eval(), torch.randn(4, 2, 6)
    call = model.layer if outside else model
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=outside):
        got, wanted = compiled(call)(x), call(x)
    torch.testing.assert_close(got, wanted)


def test_export(tmp_path: Any) -> None:
    model = Recurrent(nn.LSTM, 6, 8, batch_first=True, bidirectional=True)
    steps = torch.export.Dim("steps", min=1, max=200)
    x = torch.randn(2, 5, 6)
    path = tmp_path / "lstm.anb"
    anabranch.export(model, path, (x,), dynamic_shapes=({1: steps},))
    package = anabranch.load(path)
    with torch.no_grad():
        for length in (5, 1, 30):
            x = torch.randn(2, length, 6)
            torch.testing.assert_close(package(x), model(x))


class Transcriber(nn.Module):
    """A small CRNN: columns of an image are the steps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.layer = nn.LSTM(16, 8, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(16, 5)

    def transcribe(self, image: Tensor) -> Tensor:
        columns = self.features(image).permute(0, 3, 1, 2).flatten(2)
        return self.letters(self.layer(columns)[0]).log_softmax(-1)


def test_crnn(tmp_path: Any) -> None:
    model, image = Transcriber().eval(), torch.randn(2, 1, 8, 12)
    call = anabranch.cache_compile(model.transcribe, cache_dir=tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(call(image), model.transcribe(image))
    assert_one_program()


class Decoder(nn.Module):
    """The loop of a Tacotron's decoder: each frame depends on the one before."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.frame = nn.LSTMCell(10, 8), nn.Linear(8, 4)

    def step(self, at: Tensor, frame: Tensor, h: Tensor, c: Tensor, memory: Tensor):
        weights = torch.softmax((memory * h.unsqueeze(1)).sum(-1), -1)
        context = (weights.unsqueeze(-1) * memory).sum(1)[:, :6]
        h, c = self.cell(torch.cat([frame, context], -1), (h, c))
        return at + 1, torch.tanh(self.frame(h)), h, c

    def forward(self, memory: Tensor, most: Tensor) -> tuple[Tensor, ...]:
        def goes_on(at, frame, h, c):
            return (at < most) & (frame.sum() > -3)

        start = torch.zeros(len(memory), 8)
        first = (
            torch.zeros((), dtype=torch.int64),
            torch.zeros(len(memory), 4),
            start,
            start + 0,
        )
        return while_loop(goes_on, lambda *values: self.step(*values, memory), first)


def eager_decoder(model: Decoder, memory: Tensor, most: Tensor) -> tuple[Tensor, ...]:
    start = torch.zeros(len(memory), 8)
    values = (torch.zeros((), dtype=torch.int64), start[:, :4], start, start)
    while values[0] < most and values[1].sum() > -3:
        values = model.step(*values, memory)
    return values


def test_decoder_of_frames() -> None:
    model, memory = Decoder().eval(), torch.randn(2, 5, 8)
    run = compiled(model, fullgraph=True)
    with torch.no_grad():
        for most in map(torch.tensor, (6, 0, 1)):
            wanted = eager_decoder(model, memory, most)
            torch.testing.assert_close(run(memory, most), wanted)
    assert_one_program()


class Transducer(nn.Module):
    """Greedy decoding of an RNN-T: a letter changes the predictor's state, a blank takes
    the next frame."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.GRU(6, 8, batch_first=True)
        self.letters, self.predictor = nn.Embedding(5, 8), nn.GRUCell(8, 8)
        self.joint = nn.Linear(8, 5)

    def step(self, encoded: Tensor, at: Tensor, text: Tensor, count: Tensor, h: Tensor):
        frame = encoded.index_select(1, at.view(1)).squeeze(1)
        letter = self.joint(torch.tanh(frame + h)).argmax(-1)
        goes_on = letter[0] == 0
        after = self.predictor(self.letters(letter), h)
        place = torch.arange(len(text)) == count
        written = torch.where(place & ~goes_on, letter, text)
        forth = goes_on | (count % 3 == 2)  # three letters of a frame, at most
        count = count + (~goes_on).to(torch.int64)
        at = at + forth.to(torch.int64)
        return at, written, count, torch.where(goes_on, h, after)

    def first(self) -> tuple[Tensor, ...]:
        zero = torch.zeros((), dtype=torch.int64)
        text = torch.zeros(20, dtype=torch.int64)
        return zero, text, zero + 0, torch.zeros(1, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        encoded = self.encoder(x)[0]
        return while_loop(
            lambda at, text, count, h: (at < x.shape[1]) & (count < 20),
            lambda *values: self.step(encoded, *values),
            self.first(),
        )


def test_greedy_decoder_of_a_transducer() -> None:
    model, x = Transducer().eval(), torch.randn(1, 6, 6) * 3
    with torch.no_grad():
        encoded, values = model.encoder(x)[0], model.first()
        while values[0] < x.shape[1] and values[2] < 20:
            values = model.step(encoded, *values)
        got = compiled(model, fullgraph=True)(x)
    torch.testing.assert_close(got, values)
    assert values[2] > 0
    assert_one_program()
