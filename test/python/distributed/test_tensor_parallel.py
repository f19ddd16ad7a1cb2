"""Models that DTensor shards over processes, against eager tensor parallelism."""

from __future__ import annotations

import json

import pytest
from gloo_ranks import run_ranks

LAYERS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module,
)

mesh = init_device_mesh("cpu", (ranks,))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
        self.query, self.out = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)


class InTurn(Block):
    def forward(self, x):
        x = x + self.out(torch.tanh(self.query(x)))
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class SideBySide(Block):
    def forward(self, x):
        y = self.norm(x)
        z = self.out(torch.tanh(self.query(y)))
        return x + z + self.down(torch.nn.functional.silu(self.up(y)))


PLAN = {
    "up": ColwiseParallel(), "down": RowwiseParallel(),
    "query": ColwiseParallel(), "out": RowwiseParallel(),
}
whole_x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
"""

BLOCKS = """
kind = KIND
torch.manual_seed(0)
whole = torch.nn.Sequential(kind(), kind()).eval()
model = torch.nn.Sequential(kind(), kind()).eval()
model.load_state_dict(whole.state_dict())
for block in model:
    parallelize_module(block, mesh, PLAN)
for freeze in (False, True):
    with torch.no_grad():
        run = compiled(model, fullgraph=True, options={"freeze": freeze})
        for _ in range(2):
            found = run(whole_x)
        torch.testing.assert_close(found, model(whole_x))
        torch.testing.assert_close(found, whole(whole_x))
    calls = 4 if ranks > 1 else 0  # DTensor knows that there is nobody else
    if kind is SideBySide and ranks > 1:
        calls = 6  # of two all-reduces, the first begins and ends apart
    check_whole(calls)
x, y = whole_x.clone().requires_grad_(), whole_x.clone().requires_grad_()
compiled(model)(x).square().sum().backward()
model(y).square().sum().backward()
torch.testing.assert_close(x.grad, y.grad)
"""

# Each rank has a part of the rows; products gather them and scatter their sums.
SPREAD = """
class Spread(Block):
    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(self.norm(x))))


torch.manual_seed(0)
whole = Spread().eval()
model = Spread().eval()
model.load_state_dict(whole.state_dict())
parallelize_module(model, mesh, {
    "norm": SequenceParallel(sequence_dim=0),
    "up": ColwiseParallel(input_layouts=Shard(0)),
    "down": RowwiseParallel(output_layouts=Shard(0)),
})
part = whole_x.chunk(ranks)[rank]
with torch.no_grad():
    found = compiled(model, fullgraph=True)(part)
    torch.testing.assert_close(found, model(part))
    torch.testing.assert_close(found, whole(whole_x).chunk(ranks)[rank])
    assert anabranch.counters.eager_graphs == 0
"""

SCRIPTS = {
    "in turn": BLOCKS.replace("KIND", "InTurn"),
    "side by side": BLOCKS.replace("KIND", "SideBySide"),
    "spread": SPREAD,
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_layers(tmp_path, ranks, script) -> None:
    run_ranks(tmp_path, LAYERS + SCRIPTS[script], ranks)


# One process writes the checkpoint, and all processes read it.
LLAMA = """
import transformers

if rank == 0:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, vocab_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
        tie_word_embeddings=False, eos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained("llama")
dist.barrier()
load = transformers.AutoModelForCausalLM.from_pretrained
model = load("llama", tp_plan="auto", dtype=torch.float32).eval()
whole = load("llama", dtype=torch.float32).eval()
ids = torch.randint(0, 128, (1, 9), generator=torch.Generator().manual_seed(1))
torch.set_grad_enabled(False)
"""

PROMPT = """
wanted = model(ids).logits
run = compiled(model, fullgraph=True)
found = run(ids).logits
torch.testing.assert_close(found, wanted)
torch.testing.assert_close(found, whole(ids).logits)
# An all-reduce for the embedding, two for each layer, a gather of the logits.
check_whole(6)
"""

# Decode over a static cache.
DECODE = """
def tokens(forward):
    cache = transformers.StaticCache(config=model.config, max_cache_len=32)
    given, at, all_ids = ids, torch.arange(9), []
    for _ in range(4):
        out = forward(
            input_ids=given, past_key_values=cache, cache_position=at,
            position_ids=at[None], use_cache=True,
        )
        given, at = out.logits[:, -1:].argmax(-1), at[-1:] + 1
        all_ids.append(given)
    return torch.cat(all_ids, 1)

assert torch.equal(tokens(compiled(model.forward)), tokens(model.forward))
assert anabranch.counters.eager_graphs == 0
"""

GENERATE = """
settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
eager = model.generate(ids, **settings)
assert torch.equal(whole.generate(ids, **settings), eager)
model.forward = compiled(model.forward)
assert torch.equal(model.generate(ids, **settings), eager)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [PROMPT, DECODE, GENERATE], ids=["prompt", "decode", "generate"]
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_language_model(tmp_path, ranks, part) -> None:
    run_ranks(tmp_path, LLAMA + part, ranks, modules=("transformers",))


TRACED = (
    LAYERS[: LAYERS.index("whole_x = ")]
    + """
torch.manual_seed(0)
model = SideBySide().eval()
parallelize_module(model, mesh, PLAN)
x = torch.randn(32, 64)
with torch.no_grad():
    run = compiled(model, fullgraph=True)
    run(x)
    with anabranch.profile() as trace:
        run(x)
trace.save(f"trace{rank}.json")
"""
)


def test_products_run_while_a_collective_travels(tmp_path) -> None:
    run_ranks(tmp_path, TRACED, 2)
    for rank in range(2):
        recorded = json.loads((tmp_path / f"trace{rank}.json").read_text())
        events = recorded["traceEvents"]
        tracks = {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in events
            if event["name"] == "thread_name"
        }
        at = {
            event["name"]: (event["ts"], event["ts"] + event["dur"])
            for event in events
            if event["ph"] == "X" and tracks[event["pid"], event["tid"]] == "main"
        }
        begin = [
            event["ts"] + event["dur"]
            for event in events
            if event["name"] == "anabranch_c10d::begin_all_reduce"
            and tracks[event["pid"], event["tid"]] == "communication"
        ]
        finish = at["anabranch_c10d::finish"][0]
        between = [
            name
            for name, (start, end) in at.items()
            if begin[0] <= start <= end <= finish
        ]
        assert sum("addmm" in name for name in between) == 2, between
