"""Calls see that the owner of frozen weights has changed them."""

from __future__ import annotations

import gc
import os
import random
import weakref

import pytest
import torch
from torch import nn
from weight_updates import UPDATES, Counting, Method, check, mlp

import anabranch
from anabranch.shapes import tiers

STEPS = int(os.environ.get("ANABRANCH_FROZEN_STEPS", "24"))
SEED = int(os.environ.get("ANABRANCH_FROZEN_SEED", "0"))


def by_torch(module, **options):
    options = {"freeze": True} | options
    return torch.compile(module, backend=anabranch.anabranch, options=options)


def by_anabranch(module):
    return anabranch.compile(module, config=anabranch.Config(freeze=True))


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.__name__)
def test_an_update_is_seen_at_the_next_call(update):
    module, x = mlp(), torch.randn(3, 9)
    with torch.no_grad():
        compiled = by_torch(module)
        before = compiled(x)
        check(before, module(x))
        update(module)
        check(compiled(x), module(x))
        assert not torch.allclose(compiled(x), before)
        repacked = anabranch.counters.repacked
        check(compiled(x), module(x))
        assert anabranch.counters.repacked == repacked


def test_random_updates_and_calls_equal_eager():
    choose = random.Random(SEED)
    torch.manual_seed(SEED)
    with torch.no_grad():
        for compile_it in (by_torch, by_anabranch):
            module = mlp()
            compiled = compile_it(module)
            for step in range(STEPS):
                for _ in range(choose.choice([0, 0, 1, 2])):
                    choose.choice(UPDATES)(module)
                for parameter in module.parameters():
                    parameter.clamp_(-2, 2)
                x = torch.randn(choose.choice([1, 3, 4]), 9)
                check(compiled(x), module(x)), step


def test_values_that_stay_cost_no_compilation():
    module, x = mlp(), torch.randn(3, 9)
    compiled = by_torch(module)
    with torch.no_grad():
        compiled(x)
        graphs, repacked = anabranch.counters.graphs, anabranch.counters.repacked
        for _ in range(5):
            compiled(x)
            module(x)
    assert anabranch.counters.graphs == graphs
    assert anabranch.counters.repacked == repacked


def test_strict_refuses_what_changed_by_its_name():
    module, x = mlp(), torch.randn(3, 9)
    with torch.no_grad():
        compiled = by_torch(module, freeze="strict")
        check(compiled(x), module(x))
        module[2].weight.mul_(2)
        for _ in range(2):
            with pytest.raises(anabranch.FrozenWeightError, match="2.weight changed"):
                compiled(x)


@pytest.mark.parametrize("by_tags", [False, True])
def test_another_shape_or_dtype_is_compiled_for(by_tags):
    """Dynamo may skip guards of a module whose attributes are those of the last call."""
    module, x = mlp(), torch.randn(3, 9)
    skipping = torch._dynamo.config.patch(use_recursive_dict_tags_for_guards=by_tags)
    with torch.no_grad(), skipping:
        compiled = by_torch(module)
        check(compiled(x), module(x))
        module[0].weight.data = torch.randn(20, 9)
        module[0].bias.data = torch.randn(20)
        module[2].weight.data = torch.randn(5, 20)
        check(compiled(x), module(x))
        module[2].double()
        with pytest.raises(RuntimeError, match="dtype"):
            module(x)
        with pytest.raises(Exception, match="dtype"):
            compiled(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("some", self.embed.weight[:4])

    def forward(self, tokens):
        return self.head(self.embed(tokens)) + self.some.sum()


@pytest.mark.parametrize("place", ["embed.weight", "head.weight", "some"])
def test_tied_weights_and_views_change_together(place):
    with torch.no_grad():
        module, tokens = Tied().eval(), torch.randint(0, 20, (2, 5))
        compiled = by_torch(module)
        check(compiled(tokens), module(tokens))
        owner, name = place.split(".") if "." in place else ("", place)
        getattr(module.get_submodule(owner), name).mul_(3)
        check(compiled(tokens), module(tokens))


def test_what_the_graph_updates_is_not_frozen():
    with torch.no_grad():
        module, other = Counting().eval(), Counting().eval()
        other.weight.copy_(module.weight)
        compiled = by_torch(module)
        repacked = anabranch.counters.repacked
        for _ in range(4):
            x = torch.randn(4)
            check(compiled(x), other(x))
            check(module.total, other.total)
        assert anabranch.counters.repacked == repacked


class Broken(nn.Module):
    """A model with a graph break: one graph updates a buffer that the other reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        torch._dynamo.graph_break()
        return self.total * 2


def test_a_graph_sees_what_another_graph_updates():
    with torch.no_grad():
        module, other = Broken().eval(), Broken().eval()
        compiled = by_torch(module)
        for _ in range(3):
            x = torch.randn(4)
            check(compiled(x), other(x))


def test_batch_norm_in_training_mode_keeps_its_statistics():
    with torch.no_grad():
        module, other = (nn.BatchNorm1d(4).train() for _ in range(2))
        compiled = by_torch(module)
        for _ in range(3):
            x = torch.randn(8, 4)
            check(compiled(x), other(x))
            check(module.running_mean, other.running_mean)


def test_gears_follow():
    module = mlp()
    compiled = by_torch(module)
    with torch.no_grad():
        for step in range(4):
            x = torch.randn((2, 6)[step % 2], 9)
            anabranch.set_gears(x, {0: (2, 6)})
            check(compiled(x), module(x))
            module[0].weight.add_(0.5)
            check(compiled(x), module(x))


def test_tiers_follow():
    module = mlp()
    config = anabranch.Config(freeze=True, shapes="tiered")
    compiled = anabranch.compile(module, config=config, dynamic=True)
    with torch.no_grad():
        for _ in range(3):
            for rows in (3, 7):
                x = torch.randn(rows, 9)
                check(compiled(x), module(x))
            assert tiers.worker().finish(60)
            specialised = anabranch.counters.specialised
            check(compiled(x), module(x))
            module[2].weight.mul_(1.5)
            check(compiled(x), module(x))
            assert tiers.worker().finish(60)
            check(compiled(x), module(x))
            assert anabranch.counters.specialised > specialised


@pytest.mark.parametrize("freeze", [True, "strict"])
def test_cached_methods_follow(freeze, tmp_path):
    config = anabranch.Config(freeze=freeze)
    state = Method().state_dict()
    for _ in range(2):  # The first round compiles, the second one reads from the cache.
        module, x = Method().eval(), torch.randn(3, 9)
        module.load_state_dict(state)
        run = anabranch.cache_compile(module.run, config=config, cache_dir=tmp_path)
        with torch.no_grad():
            check(run(x), module.run(x))
            for _ in range(2):
                module.body[0].weight.add_(0.5)
                if freeze == "strict":
                    with pytest.raises(anabranch.FrozenWeightError):
                        run(x)
                else:
                    check(run(x), module.run(x))


def test_a_freed_model_is_freed():
    module, x = mlp(), torch.randn(3, 9)
    with torch.no_grad():
        compiled = by_torch(module)
        compiled(x)
        module[0].weight.add_(1)
        compiled(x)
    storage = module[0].weight.untyped_storage()
    before = torch._C._storage_Use_Count(storage._cdata)
    assert before <= 3  # references: the parameter's, this function's, and Python's
    parameter = weakref.ref(module[0].weight)
    del module, compiled, storage
    torch._dynamo.reset()
    gc.collect()
    assert parameter() is None
