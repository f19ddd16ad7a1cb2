"""torch._dynamo.mark_static, with dynamic=True too."""

import pytest
import torch
from torch import nn

import anabranch
import torchair


def marked(*tensors):
    for tensor in tensors:
        torch._dynamo.mark_static(tensor)
    return tensors


def kept(monkeypatch):
    """A list that collects the descriptions of later compilations."""
    found = []
    build = anabranch.packages.package.build

    def keep(described, *arguments):
        found.append(described)
        return build(described, *arguments)

    monkeypatch.setattr(anabranch.packages.package, "build", keep)
    return found


def compiled(function, config, **settings):
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, dynamic=True, **settings)


@pytest.mark.checklist("T075")
def test_all_inputs_marked_make_a_static_graph(config, monkeypatch) -> None:
    found = kept(monkeypatch)
    config.ge_config.enable_single_stream = True
    model = compiled(lambda a, b: torch.relu(a) @ b, config, fullgraph=True)
    for rows in (3, 5):
        a, b = marked(torch.randn(rows, 4), torch.randn(4, 6))
        torch.testing.assert_close(model(a, b), torch.relu(a) @ b)
    assert [described.graph["symbols"] for described in found] == [[], []]
    assert [len(described.graph["inputs"]) for described in found] == [2, 2]


def test_only_what_is_marked_is_static(config, monkeypatch) -> None:
    found = kept(monkeypatch)
    model = compiled(lambda a, b: a + 1, config, fullgraph=True)
    (a,) = marked(torch.randn(3, 4))
    model(a, torch.randn(5, 6))
    other = compiled(lambda a, b: a[:, None] * b, config, fullgraph=True)
    (a,) = marked(torch.randn(3))
    for columns in (5, 7):
        b = torch.randn(3, columns)
        torch.testing.assert_close(other(a, b), a[:, None] * b)
    shapes = [entry["shape"] for entry in found[1].graph["inputs"] if "shape" in entry]
    assert len(found) == 2 and shapes[0] == [3]
    assert shapes[1][0] == 3 and isinstance(shapes[1][1], str)


@pytest.mark.checklist("T076")
def test_sizes_that_values_decide(config, monkeypatch) -> None:
    """Dynamo breaks the graph at such a size. The part before it is static."""
    found = kept(monkeypatch)

    def function(a, w):
        hidden = torch.softmax(a @ w, -1)
        places = torch.nonzero(hidden > 0.2)
        return hidden * 2, places, torch.unique(places[:, 0])

    model = compiled(function, config)
    for seed in range(3):
        torch.manual_seed(seed)
        a, w = marked(torch.randn(6, 8), torch.randn(8, 4))
        for result, expected in zip(model(a, w), function(a, w), strict=True):
            torch.testing.assert_close(result, expected)
    assert found[0].graph["symbols"] == []
    assert {"aten.mm.default"} <= {n["op"] for n in found[0].graph["nodes"]}


class Decoder(nn.Module):
    """A decoder like the page's: nested caches, a list of ints, a bound method."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))

    def decode(
        self,
        x,
        xa,
        positional_embedding,
        kv_cache=None,
        updated_kv_positions=None,
        actual_seq_len=None,
        kv_padding_size=None,
    ):
        x = x + positional_embedding
        for i, layer in enumerate(self.layers):
            attn = kv_cache[i]["attn"]
            x = layer(x)
            for name in ("key", "value"):
                attn[name].index_copy_(1, updated_kv_positions, x)
            scores = torch.softmax(x @ attn["key"].transpose(1, 2), -1)
            cross = kv_cache[i]["cross_attn"]
            x = scores @ attn["value"] + x @ cross["key"].transpose(1, 2) @ xa
            x = x + cross["value"].mean(1, keepdim=True)
        return x * actual_seq_len[0] + kv_padding_size


def caches(layers):
    names = ("attn", "cross_attn")
    return {
        i: {n: {k: torch.zeros(1, 6, 8) for k in ("key", "value")} for n in names}
        for i in range(layers)
    }


@pytest.mark.checklist("T077")
@torch.no_grad()
def test_the_decoder_of_the_page(config) -> None:
    layers = 2
    decoder, mine, reference = Decoder(layers).eval(), caches(layers), caches(layers)
    eager = decoder.decode
    decoder.decode = compiled(decoder.decode, config, fullgraph=True)
    xa, embedding = torch.randn(1, 6, 8), torch.randn(1, 1, 8)
    padding = torch.tensor([1])
    for step in range(1, 5):
        x, positions = torch.randn(1, 1, 8), torch.tensor([step])
        marked(x, xa, embedding, padding)
        for i in range(layers):
            for part in ("attn", "cross_attn"):
                marked(mine[i][part]["key"], mine[i][part]["value"])
        given = {
            "updated_kv_positions": positions,
            "actual_seq_len": [step + 1],
            "kv_padding_size": padding,
        }
        found = decoder.decode(x, xa, embedding, mine, **given)
        expected = eager(x, xa, embedding, reference, **given)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, reference)
    assert anabranch.counters.graphs == 1 and anabranch.counters.eager_graphs == 0
