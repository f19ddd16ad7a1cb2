"""Recurrent layers equal PyTorch's in float64, and so does attention with projections."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

f32, f16 = torch.float32, torch.float16


def close(made, wanted, dtype):
    assert made.dtype == dtype
    limit = 1e-5 if dtype == f32 else 2e-3
    torch.testing.assert_close(made.double(), wanted, atol=limit, rtol=limit)


def steps_of_lstm(layer, x, h, c):
    """h, c, i, j, f, o and tanh(c) of each step, by the formula."""
    made = []
    for one in x:
        sums = one @ layer.weight_ih_l0.T + layer.bias_ih_l0
        sums = sums + h @ layer.weight_hh_l0.T + layer.bias_hh_l0
        i, f, j, o = sums.chunk(4, -1)
        i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
        c = f * c + i * j
        h = o * c.tanh()
        made.append((h, c, i, j, f, o, c.tanh()))
    return [torch.stack(part) for part in zip(*made)]


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("backwards", [False, True])
@torch.no_grad()
def test_lstm(dtype, backwards) -> None:
    layer = torch.nn.LSTM(6, 5).to(dtype).double()
    x, h, c = (torch.randn(*s).to(dtype) for s in ((4, 3, 6), (3, 5), (1, 3, 5)))
    weight = torch.cat([layer.weight_ih_l0, layer.weight_hh_l0], 1).T.to(dtype)
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0).to(dtype)
    wide = x.double().flip(0) if backwards else x.double()
    wanted = steps_of_lstm(layer, wide, h.double(), c[0].double())
    theirs = layer(wide, (h.double()[None], c.double()))
    torch.testing.assert_close(wanted[0], theirs[0])
    torch.testing.assert_close(wanted[1][-1:], theirs[1][1])
    if backwards:
        wanted = [part.flip(0) for part in wanted]
    rest = (True, 1, 0.0, False, False, False, False, backwards)

    def function(x, weight, bias, h, c):
        return torch_npu.npu_lstm(x, weight, bias, x[:0], h, c, *rest)

    for run in (function, compiled(function)):
        y, *parts = run(x, weight, bias, h, c)
        close(y, wanted[0], dtype)
        for made, right in zip(parts, wanted):
            close(made, right, dtype)
    without = torch_npu.npu_lstm(x, weight, bias, x[:0], h, c, False, *rest[1:])
    none = torch_npu.npu_lstm(x, weight, bias * 0, x[:0], h, c, *rest)
    torch.testing.assert_close(without, none)


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("biased", [False, True])
@torch.no_grad()
def test_lstm_cell(dtype, biased) -> None:
    cell = torch.nn.LSTMCell(6, 5, bias=biased).to(dtype)
    x, h, c = (torch.randn(*s).to(dtype) for s in ((3, 6), (3, 5), (3, 5)))
    weights = cell.weight_ih.T, cell.weight_hh.T
    biases = (cell.bias_ih, cell.bias_hh) if biased else (None, None)

    def function(x, h, c):
        return torch_npu.npu_lstm_cell(x, *weights, h, c, *biases)

    wanted = cell.double()(x.double(), (h.double(), c.double()))
    cell.to(dtype)
    for run in (function, compiled(function)):
        y, new, memory, i, j, f, o, tanhc = run(x, h, c)
        close(new, wanted[0], dtype)
        close(memory, wanted[1], dtype)
        assert torch.equal(y, new[None])
        assert torch.allclose(f[0] * c + i[0] * j[0], memory, atol=5e-3)
        assert torch.allclose(o * tanhc, y, atol=5e-3)


@pytest.mark.parametrize("dtype", [f32, f16])
@torch.no_grad()
def test_gru(dtype) -> None:
    layer = torch.nn.GRU(6, 5).to(dtype).double()
    x, h = torch.randn(4, 3, 6).to(dtype), torch.randn(1, 3, 5).to(dtype)
    given = [
        layer.weight_ih_l0.T.to(dtype),
        layer.weight_hh_l0.T.to(dtype),
        layer.bias_ih_l0.to(dtype),
        layer.bias_hh_l0.to(dtype),
    ]
    rest = (True, 1, 0.0, False, False, False)

    def function(x, h, given):
        length = torch.zeros(1, dtype=torch.int32)
        return torch_npu.npu_gru(x, h, *given, length, *rest)

    wanted = layer(x.double(), h.double())[0]
    before = torch.cat([h.double(), wanted[:-1]])
    for run in (function, compiled(function)):
        y, states, update, reset, new, hidden_new = run(x, h, given)
        close(y, wanted, dtype)
        close(states, wanted, dtype)
        turned = before @ layer.weight_hh_l0.T + layer.bias_hh_l0
        close(hidden_new, turned[..., 10:], dtype)
        sums = x.double() @ layer.weight_ih_l0.T + layer.bias_ih_l0
        close(reset, (sums + turned)[..., :5].sigmoid(), dtype)
        close(update, (sums + turned)[..., 5:10].sigmoid(), dtype)
        again = (1 - update.double()) * new.double() + update.double() * before
        close(y, again, dtype)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_attention_with_projections(wide, biased) -> None:
    heads, width, rows, keys, batch = 16, 16, 16, 32, 2
    whole = heads * width
    states = [
        torch.randn(batch * length, whole).half() for length in (rows, keys, keys)
    ]
    weights = [(torch.randn(whole, whole) / 16).half() for _ in range(4)]
    biases = [torch.randn(whole).half() if biased else None for _ in range(4)]
    mask = torch.randn(batch, heads, rows, keys).half()

    def function(states, weights, mask):
        return torch_npu.npu_multi_head_attention(
            *states,
            *weights[:3],
            mask,
            weights[3],
            *biases,
            None,
            heads,
            width,
            keys,
            rows,
            0.0,
            wide,
        )

    def projected(x, place):
        made = x.double() @ weights[place].double().T
        return made + biases[place].double() if biased else made

    parts = []
    for place, length in enumerate((rows, keys, keys)):
        made = projected(states[place], place)
        parts.append(made.view(batch, length, heads, width).transpose(1, 2))
    q, k, v = parts[0] / 4, parts[1], parts[2]
    weight = (q @ k.mT + mask.double()).softmax(-1)
    context = (weight @ v).transpose(1, 2).reshape(batch * rows, whole)
    wanted = [projected(context, 3), None, q, k, v, weight, weight, context]
    for run in (function, compiled(function)):
        results = run(states, weights, mask)
        assert results[1].tolist() == [255] * (batch * heads * rows * keys // 8)
        assert results[5].dtype == (f32 if wide else f16)
        for made, right in zip(results, wanted):
            if right is not None:
                torch.testing.assert_close(made.double(), right, atol=1e-2, rtol=1e-2)


def test_wrong_arguments() -> None:
    x, weight, bias = torch.ones(2, 3, 4), torch.ones(9, 20), torch.ones(20)
    state = torch.ones(3, 5)
    right = [True, 1, 0.0, False, False, False, False, False]
    for place, value, text in (
        (1, 2, "num_layers must be 1, got 2"),
        (2, 0.5, "dropout must be 0, got 0.5"),
        (4, True, "bidirectional must be False"),
        (5, True, "batch_first must be False"),
        (6, True, "flag_seq must be False"),
    ):
        given = [*right]
        given[place] = value
        with pytest.raises(RuntimeError, match=f"npu_lstm: {text}"):
            torch_npu.npu_lstm(x, weight, bias, x, state, state, *given)
    with pytest.raises(RuntimeError, match="npu_lstm: weight must have shape .9, 20."):
        torch_npu.npu_lstm(x, weight[:8], bias, x, state, state, *right)
    with pytest.raises(RuntimeError, match="b_ih and b_hh must both be given"):
        torch_npu.npu_lstm_cell(
            x[0], torch.ones(4, 20), torch.ones(5, 20), state, state, bias
        )
    rest = x, True, 1, 0.0, False, False, False
    gates = torch.ones(4, 15), torch.ones(5, 15), torch.ones(15), torch.ones(14)
    with pytest.raises(RuntimeError, match="npu_gru: bias_hidden must have shape"):
        torch_npu.npu_gru(x, state, *gates, *rest)
    some = torch.ones(16, 256).half()
    square = torch.ones(256, 256).half()
    mask = torch.ones(1, 16, 16, 16).half()
    for sizes, dropout, text in (
        ((8, 16, 16, 16), 0.0, "attn_head_num must be a multiple of 16"),
        ((16, 16, 16, 0), 0.0, "tgt_len must be a multiple of 16 above 0, got 0"),
        ((16, 16, 16, 16), 0.5, "dropout_prob must be 0, got 0.5: a dropout is a step"),
        ((16, 16, 32, 16), 0.0, "key must have shape .32, 256."),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch_npu.npu_multi_head_attention(
                *[some] * 3,
                *[square] * 3,
                mask,
                square,
                *[None] * 5,
                *sizes,
                dropout,
                True,
            )
