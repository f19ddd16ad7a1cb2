"""Super kernels: the bits are the same with and without the scope, each scope becomes the
expected launches, and mistakes are errors. test_super_random.py has random graphs,
test_super_order.py those with waits and events."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F

import anabranch
from anabranch import _C

THREADS = (1, 2, 3, 7)


@pytest.fixture(autouse=True)
def clean():
    torch._dynamo.reset()
    yield
    _C.set_default_threads(0)


def compiled(function, dynamic=False, **options):
    return torch.compile(
        function,
        backend=anabranch.anabranch,
        options={"cache": False} | options,
        fullgraph=True,
        dynamic=dynamic,
    )


def results(function, *inputs):
    with torch.no_grad():
        found = function(*(x.clone() for x in inputs))
    return list(found) if isinstance(found, tuple | list) else [found]


def units() -> dict[str, int]:
    """The super kernels of the last compiled graph, with their launches."""
    report = anabranch.last_report()
    assert report is not None
    return {entry["name"]: entry["launches"] for entry in report["super_kernels"]}


def breaks() -> list[str]:
    report = anabranch.last_report()
    assert report is not None
    return [entry["reason"] for entry in report["super_breaks"]]


def assert_same_bits(function, *inputs, **options) -> dict[str, int]:
    """Asserts eager's results up to rounding, and the exact bits of the program without
    super kernels, with more and fewer workers than CPUs. Returns the super kernels."""
    expected = results(function, *inputs)
    alone = results(compiled(function, super_kernels="off"), *inputs)
    assert not units()
    torch._dynamo.reset()
    for found, wanted in zip(alone, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    run = compiled(function, **options)
    for threads in THREADS:
        _C.set_default_threads(threads)
        for _ in range(3):
            found = results(run, *inputs)
            assert all(map(torch.equal, found, alone)), f"{threads} threads"
    return units()


def chain(x, w):
    with anabranch.super_kernel("chain"):
        for _ in range(4):
            x = (x @ w).tanh().softmax(-1)
    return x


def test_a_chain_is_one_command():
    x, w = torch.randn(70, 96), torch.randn(96, 96)
    made = assert_same_bits(chain, x, w)
    assert list(made) == ["chain_0"]
    assert made["chain_0"] >= 4


def test_a_diamond():
    def diamond(x, w):
        with anabranch.super_kernel("d", "stream-fusion=0"):
            a = (x @ w).softmax(-1)
            b, c = (a @ w).cumsum(-1), (a.t() @ w).softmax(0)
            return b @ c, a

    made = assert_same_bits(diamond, torch.randn(64, 64), torch.randn(64, 64))
    assert list(made) == ["d_0"]


def test_what_a_scope_fuses_with_is_its_own():
    """A scope does not change which kernels there are. Each kernel that has an operator of
    the scope is a member."""

    def model(x, w):
        with anabranch.super_kernel("s"):
            y = x @ w
            z = y.softmax(-1) @ w
        return z.relu() + 1

    assert assert_same_bits(model, torch.randn(8, 8), torch.randn(8, 8)) == {"s_0": 3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer(dtype):
    """A layer like those of MiniLM: attention, projections, norms."""
    torch.manual_seed(0)
    width, heads = 96, 3

    def layer(x, qkv, out, up, down):
        with anabranch.super_kernel("layer"):
            q, k, v = (
                part.view(2, 20, heads, -1).transpose(1, 2)
                for part in (x @ qkv).chunk(3, -1)
            )
            a = F.scaled_dot_product_attention(q, k, v)
            x = F.layer_norm(a.transpose(1, 2).reshape(x.shape) @ out + x, (width,))
            return F.layer_norm(F.gelu(x @ up) @ down + x, (width,))

    inputs = [torch.randn(2, 20, width)] + [
        torch.randn(*shape) / 10
        for shape in ((width, 3 * width), (width, width), (width, 4 * width))
    ]
    inputs.append(torch.randn(4 * width, width) / 10)
    inputs = [x.to(dtype) for x in inputs]
    if dtype == torch.bfloat16:
        alone = results(compiled(layer, super_kernels="off"), *inputs)
        torch._dynamo.reset()
        found = results(compiled(layer), *inputs)
        assert all(map(torch.equal, found, alone))
        made = units()
    else:
        made = assert_same_bits(layer, *inputs)
    assert list(made) == ["layer_0"]


def test_own_functions_and_loops():
    @contextlib.contextmanager
    def part(name):
        with anabranch.super_kernel(name):
            yield

    def block(x, w, name):
        with part(name):
            return ((x @ w).softmax(-1) @ w).softmax(-1)

    def model(x, w):
        for i in range(3):
            x = block(x, w, f"b{i}")
        return x

    made = assert_same_bits(model, torch.randn(8, 8), torch.randn(8, 8))
    assert list(made) == ["b0_0", "b1_0", "b2_0"]


def test_nested_scopes():
    """The inner name decides; None takes operators out of the super kernel."""

    def model(x, w):
        with anabranch.super_kernel("outer", "strict-scope-check=bypass"):
            x = ((x @ w).softmax(-1) @ w).softmax(-1)
            with anabranch.super_kernel("inner"):
                x = ((x @ w).softmax(-1) @ w).softmax(-1)
            with anabranch.super_kernel(None):
                x = ((x @ w).softmax(-1) @ w).softmax(-1)
            x = ((x @ w).softmax(-1) @ w).softmax(-1)
        return x

    made = assert_same_bits(model, torch.randn(8, 8), torch.randn(8, 8))
    assert made == {"outer_0": 4, "inner_0": 4, "outer_1": 4}


def test_one_name_twice():
    def model(x, w):
        with anabranch.super_kernel("s"):
            x = (x @ w).softmax(-1)
        x = (x @ w).softmax(-1)
        with anabranch.super_kernel("s"):
            return (x @ w).softmax(-1)

    made = assert_same_bits(model, torch.randn(8, 8), torch.randn(8, 8))
    assert made == {"s_0": 2, "s_1": 2}


def split(x, w):
    with anabranch.super_kernel("s", OPTIONS[0]):
        y = (x @ w).softmax(-1)
        y = torch.special.bessel_j0(y)
        return (y @ w).softmax(-1)


OPTIONS = [""]


@pytest.fixture
def options(request):
    OPTIONS[0] = request.param
    yield request.param
    OPTIONS[0] = ""


def test_what_runs_in_pytorch_splits(capfd):
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    made = assert_same_bits(split, x, w, explain=True)
    assert made == {"s_0": 2, "s_1": 2}
    assert breaks() == ["aten::special_bessel_j0 runs through PyTorch"]
    said = capfd.readouterr().err
    line = split.__code__.co_firstlineno + 3
    assert (
        f"test_super_kernels.py:{line}: not one super kernel 's': aten::special_bessel_j0 runs through"
        " PyTorch" in said
    )
    assert "super kernel s_0: 2 launches at" in said


@pytest.mark.parametrize("options", ["strict-scope-check=abort"], indirect=True)
def test_strict_scopes_are_one_or_an_error(options):
    with torch.no_grad(), pytest.raises(anabranch.CompileError) as error:
        compiled(split)(torch.randn(8, 8), torch.randn(8, 8))
    line = split.__code__.co_firstlineno + 3
    for text in (
        "strict-scope-check=abort",
        "aten::special_bessel_j0",
        f"test_super_kernels.py:{line}",
    ):
        assert text in str(error.value)
    torch._dynamo.reset()
    made = results(compiled(chain), torch.randn(8, 8), torch.randn(8, 8))
    assert len(made) == 1


@pytest.mark.parametrize("options", ["strict-scope-check=bypass"], indirect=True)
def test_bypassed_scopes_are_left(options):
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    with pytest.warns(UserWarning, match="is no super kernel: aten::special_bessel_j0"):
        assert assert_same_bits(split, x, w) == {}


@pytest.mark.parametrize("fusion", [0, 1])
def test_streams_inside(fusion):
    def model(x, w):
        with anabranch.super_kernel("s", f"stream-fusion={fusion}"):
            a = (x @ w).softmax(-1)
            with anabranch.stream("side"):
                b = (x @ w.t()).softmax(-1)
                b = (b @ w).softmax(0)
            with anabranch.limit_cores(1):
                return (a @ w).softmax(0) + b

    made = assert_same_bits(model, torch.randn(64, 64), torch.randn(64, 64))
    report = anabranch.last_report()
    if fusion:
        [entry] = report["super_kernels"]
        assert entry["streams"] == 2
        assert entry["launches"] == sum(made.values())
    else:
        assert len(made) == 2
        assert all(entry["streams"] == 1 for entry in report["super_kernels"])


def test_auto():
    def model(x, w):
        for _ in range(3):
            x = (x @ w).softmax(-1)
        with anabranch.super_kernel(None):
            x = (x @ w).cumsum(-1)
        with anabranch.super_kernel("mine"):
            return ((x @ w).softmax(-1) @ w).softmax(-1)

    x, w = torch.randn(32, 32), torch.randn(32, 32)
    made = assert_same_bits(model, x, w, super_kernels="auto", threads=2)
    assert made == {"auto_0": 6, "mine_0": 4}
    torch._dynamo.reset()
    results(compiled(model, super_kernels="auto", threads=1), x, w)
    assert units() == {"mine_0": 4}


def test_gears_have_one_each():
    w = torch.randn(16, 16)
    with torch.no_grad():
        run = compiled(chain, None)
        off = compiled(lambda x, w: chain(x, w), None, super_kernels="off")
        for function in (run, off):
            first = torch.randn(4, 16)
            anabranch.set_gears(first, {0: [4, 8]})
            function(first, w)
            if function is run:
                report = anabranch.last_report()
                assert [e["name"] for e in report["super_kernels"]] == ["chain_0"] * 2
        for rows in (4, 8):
            x = torch.randn(rows, 16)
            assert torch.equal(run(x, w), off(x, w))


def test_in_place_updates_are_members():
    """One member writes to a cache, and another member reads it."""

    def step(x, w, cache, at):
        with anabranch.super_kernel("step"):
            k = (x @ w).softmax(-1)
            cache.index_copy_(0, at, k)
            return (x @ cache.t()).softmax(-1) @ cache

    def run(function):
        torch.manual_seed(0)
        x, w, cache = torch.randn(1, 32), torch.randn(32, 32), torch.zeros(40, 32)
        found = []
        with torch.no_grad():
            for at in range(3):
                found.append(function(x, w, cache, torch.tensor([at])))
        return [*found, cache]

    expected = run(step)
    alone = run(compiled(step, super_kernels="off"))
    torch._dynamo.reset()
    found = run(compiled(step))
    assert all(map(torch.equal, found, alone))
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


def test_a_decode_step():
    """A decode step is one launch, with the same bits at each step: embedding, two layers
    with rotary positions and caches that it updates in place, the choice of a token."""
    width, heads, context, words = 32, 2, 24, 50
    depth = width // heads
    shapes = {"qkv": (width, 3 * width), "out": (width, width)}
    shapes |= {"gate": (width, 48), "up": (width, 48), "down": (48, width)}
    layers = [{n: torch.randn(*s) / 6 for n, s in shapes.items()} for _ in range(2)]
    table, head = torch.randn(words, width), torch.randn(width, words)
    angles = torch.outer(torch.arange(context), 0.5 ** torch.arange(depth // 2))
    turn = torch.cat([angles, angles], -1)

    def rotate(x, at):
        half = torch.cat([-x[..., depth // 2 :], x[..., : depth // 2]], -1)
        return x * turn.cos()[at] + half * turn.sin()[at]

    def layer(x, at, mask, keys, values, weights):
        h = F.rms_norm(x, (width,)) @ weights["qkv"]
        q, k, v = h.view(-1, 1, 3, heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
        keys.index_copy_(2, at, rotate(k, at))
        values.index_copy_(2, at, v)
        a = F.scaled_dot_product_attention(rotate(q, at), keys, values, attn_mask=mask)
        x = x + a.transpose(1, 2).reshape(x.shape) @ weights["out"]
        h = F.rms_norm(x, (width,))
        h = F.silu(h @ weights["gate"]) * (h @ weights["up"])
        return x + h @ weights["down"]

    def step(ids, at, *caches):
        with anabranch.super_kernel("step", "strict-scope-check=abort"):
            x = F.embedding(ids, table)
            mask = (torch.arange(context) <= at)[None, None, None]
            for i, weights in enumerate(layers):
                x = layer(x, at, mask, caches[2 * i], caches[2 * i + 1], weights)
            return (F.rms_norm(x, (width,)) @ head).argmax(-1)

    def run(function, batch):
        caches = [torch.zeros(batch, heads, context, depth) for _ in range(4)]
        ids, found = torch.arange(batch)[:, None], []
        with torch.no_grad():
            for at in range(4):
                ids = function(ids, torch.tensor([at]), *caches)
                found.append(ids)
        return [*found, *caches]

    for batch in (1, 8):
        torch._dynamo.reset()
        expected = run(step, batch)
        alone = run(compiled(step, super_kernels="off"), batch)
        torch._dynamo.reset()
        found = run(compiled(step), batch)
        assert list(units()) == ["step_0"]
        assert all(map(torch.equal, found, alone))
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_mixture_of_experts():
    """Tokens go to two of eight experts, with and without gathered weights."""
    torch.manual_seed(0)
    experts, width, inner = 8, 32, 48
    shapes = ((experts, width, inner), (experts, width, inner), (experts, inner, width))
    weights = [torch.randn(*shape) / 6 for shape in shapes]

    def gathered(x, router, gate, up, down):
        with anabranch.super_kernel("moe", "strict-scope-check=abort"):
            share, chosen = (x @ router).softmax(-1).topk(2, -1)
            share = share / share.sum(-1, keepdim=True)
            y = torch.zeros_like(x)
            for i in range(2):
                one = chosen[:, i]
                h = F.silu(torch.bmm(x[:, None], gate[one]))
                h = h * torch.bmm(x[:, None], up[one])
                y = y + share[:, i : i + 1] * torch.bmm(h, down[one])[:, 0]
            return y

    def dense(x, router, gate, up, down):
        with anabranch.super_kernel("moe", "strict-scope-check=abort"):
            share = (x @ router).softmax(-1)
            best, chosen = share.topk(2, -1)
            share = torch.zeros_like(share).scatter(1, chosen, best)
            share = share / share.sum(-1, keepdim=True)
            h = F.silu(torch.einsum("bd,ndf->nbf", x, gate))
            h = torch.bmm(h * torch.einsum("bd,ndf->nbf", x, up), down)
            return torch.einsum("nbd,bn->bd", h, share)

    for model, rows in ((gathered, 1), (gathered, 4), (dense, 16)):
        torch._dynamo.reset()
        inputs = [torch.randn(rows, width), torch.randn(width, experts), *weights]
        assert list(assert_same_bits(model, *inputs)) == ["moe_0"]


# Mistakes


def test_scopes_do_nothing_eagerly():
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    wanted = x
    for _ in range(4):
        wanted = (wanted @ w).tanh().softmax(-1)
    assert torch.equal(chain(x, w), wanted)


MISTAKES = [
    ("speed=1", "no option 'speed'"),
    ("stream-fusion", "'stream-fusion' is no option"),
    ("stream-fusion=2", "stream-fusion must be 0 or 1, got '2'"),
    ("strict-scope-check=maybe", "strict-scope-check must be bypass or abort"),
    ("stream-fusion=1:stream-fusion=0", "stream-fusion is given twice"),
    ("stream-fusion=1:", "'' is no option"),
    ("=1", "'=1' is no option"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_options_that_are_none(text, message):
    with pytest.raises(ValueError, match=message):
        anabranch.super_kernel("s", text).__enter__()

    def model(x):
        with anabranch.super_kernel("s", text):
            return x + 1

    with pytest.raises(ValueError, match=message) as error:
        compiled(model)(torch.ones(3))
    assert isinstance(error.value, anabranch.CompileError)
    line = model.__code__.co_firstlineno + 2
    assert f"test_super_kernels.py:{line}" in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1,), "needs a string or None"), (("s", None), "must be a string")],
)
def test_arguments(arguments, message):
    with pytest.raises(TypeError, match=message):
        anabranch.super_kernel(*arguments).__enter__()


def test_super_kernels_is_checked():
    with pytest.raises(ValueError, match="super_kernels must be one of"):
        anabranch.Config(super_kernels="all")
