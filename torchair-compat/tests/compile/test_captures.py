"""Captures, in the modes that have them: their rules and their counts."""

import pytest
import torch
from torch._dynamo.utils import counters

import torch_npu
import torchair


@pytest.fixture(params=["reduce-overhead", "npugraph_ex"])
def config(request):
    counters["npugraph_ex"].clear()
    config = torchair.CompilerConfig()
    config.mode = request.param
    return config


def compiled(model, config, dynamic=False):
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)


def counts():
    """The only graph's captures, and recaptures for addresses and for limits."""
    found = counters["npugraph_ex"]
    sums = [0, 0, 0]
    for name, count in found.items():
        for place, start in enumerate(
            ("captured", "recapture_due_to_mutated", "recapture_due_to_global")
        ):
            sums[place] += count if name.startswith(start) else 0
    return sums


@pytest.mark.checklist("T109", "T110")
def test_a_capture_for_each_size(config, debug, capsys) -> None:
    run = compiled(lambda x: x * 2 + 1, config, dynamic=True)
    for rows in (4, 5, 4, 6, 5):
        x = torch.randn(rows, 3)
        assert torch.equal(run(x), x * 2 + 1)
    assert counts() == [3, 0, 0]
    text = capsys.readouterr().out
    assert text.count("No find captured AclGraph{id: ") == 3
    assert text.count("Success to capture fx_graph graph_") == 3
    assert text.count("no needs to be recaptured") == 2
    assert "the count of captures is 3" in text


@pytest.mark.checklist("T114")
def test_results_are_overwritten_by_the_next_run(config) -> None:
    run = compiled(lambda x: (x + 1, x[1:]), config)
    x, y = torch.zeros(3), torch.ones(3)
    first, view = run(x)
    assert torch.equal(first, x + 1)
    second, _ = run(y)
    assert torch.equal(second, y + 1)
    assert torch.equal(first, y + 1)
    # A result in an input's memory stays there.
    assert torch.equal(view, x[1:])
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.checklist("T114")
def test_cloned_results_stay(config) -> None:
    config.debug.aclgraph.enable_output_clone = True
    run = compiled(lambda x: x + 1, config)
    first = run(torch.zeros(3))
    run(torch.ones(3))
    assert torch.equal(first, torch.ones(3))


def test_results_of_other_forms(config) -> None:
    """Results that are equal, empty or expanded, with and without inference mode."""

    def model(x):
        y = x.exp()
        return y, y, x[:0] * 2, y.sum(-1, keepdim=True).expand(-1, 5)

    run = compiled(model, config)
    for grad in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with grad():
            x = torch.randn(4, 3)
            found = run(x)
            for value, wanted in zip(found, model(x), strict=True):
                torch.testing.assert_close(value, wanted)


@pytest.mark.checklist("T111")
def test_mutated_inputs_at_other_addresses(config) -> None:
    run = compiled(lambda cache, x: cache.add_(x), config)
    one, other, x = torch.zeros(3), torch.zeros(3), torch.ones(3)
    for cache in (one, one, other):
        run(cache, x.clone())
    assert torch.equal(one, 2 * x)
    assert torch.equal(other, x)
    assert counts() == [1, 1, 0]


@pytest.mark.checklist("T112")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_replaced_parameters(config, frozen) -> None:
    config.experimental_config.frozen_parameter = frozen
    model = torch.nn.Linear(3, 3).eval()
    run = compiled(model, config)
    x = torch.randn(2, 3)
    with torch.no_grad():
        run(x)
        model.weight.data = torch.ones(3, 3)
        found = run(x)
        if not frozen:
            torch.testing.assert_close(found, model(x))
    assert counts() == [1 if frozen else 2, 0, 0]


@pytest.mark.checklist("T125")
def test_limits_of_cores(config) -> None:
    run = compiled(lambda x: x + 1, config)
    stream = torch_npu.npu.current_stream()
    run(torch.zeros(3))
    torch_npu.npu.set_stream_limit(stream, 4, 8)
    try:
        run(torch.zeros(3))
        run(torch.zeros(3))
    finally:
        torch_npu.npu.reset_stream_limit(stream)
    assert counts() == [1, 0, 1]


@pytest.mark.checklist("T113")
def test_too_many_captures(config) -> None:
    config.debug.aclgraph.static_capture_size_limit = 3
    run = compiled(lambda x: x * 2, config, dynamic=True)
    for rows in (2, 3, 4):
        run(torch.randn(rows, 3))
    assert counts() == [3, 0, 0]
    with pytest.warns(UserWarning, match="static_capture_size_limit reached when"):
        kept = run(torch.ones(5, 3))
    assert not counters["npugraph_ex"]
    for rows in (5, 2):
        x = torch.randn(rows, 3)
        assert torch.equal(run(x), x * 2)
    assert torch.equal(kept, torch.full((5, 3), 2.0))


def test_training_keeps_what_it_needs(config) -> None:
    run = compiled(lambda x: (x.exp() * x.sin()).sum(), config)
    xs = [torch.randn(4, requires_grad=True) for _ in range(2)]
    losses = [run(x) for x in xs]
    for x, loss in zip(xs, losses):
        loss.backward()
        y = x.detach().clone().requires_grad_()
        (y.exp() * y.sin()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def test_the_other_mode_counts_nothing() -> None:
    counters["npugraph_ex"].clear()
    config = torchair.CompilerConfig()
    run = compiled(lambda x: x + 1, config)
    first = run(torch.zeros(3))
    run(torch.ones(3))
    assert torch.equal(first, torch.ones(3))
    assert not counters["npugraph_ex"]


@pytest.mark.checklist("T115")
def test_inputs_of_the_first_call_are_the_capture_s(config) -> None:
    """Later calls copy their inputs to those of the first call."""
    config.debug.aclgraph.clone_input = False
    run = compiled(lambda x: x * 2, config)
    first, second = torch.ones(3), torch.full((3,), 5.0)
    assert torch.equal(run(first), torch.full((3,), 2.0))
    assert torch.equal(run(second), torch.full((3,), 10.0))
    assert torch.equal(first, second)
    first.fill_(7)
    assert torch.equal(run(first), torch.full((3,), 14.0))


@pytest.mark.checklist("T115")
def test_inputs_stay_the_caller_s(config) -> None:
    run = compiled(lambda x: x * 2, config)
    first, second = torch.ones(3), torch.full((3,), 5.0)
    run(first)
    run(second)
    assert torch.equal(first, torch.ones(3))


def test_what_is_not_lent(config) -> None:
    """Parameters, and inputs that the graph writes to, are not lent."""
    config.debug.aclgraph.clone_input = False
    layer = torch.nn.Linear(3, 3).requires_grad_(False)

    def model(x, state):
        state.add_(1)
        return layer(x) + state

    run = compiled(model, config)
    states = [torch.zeros(3), torch.ones(3)]
    for state in states:
        x = torch.randn(2, 3)
        before = state.clone()
        torch.testing.assert_close(run(x, state), layer(x) + before + 1)
        assert torch.equal(state, before + 1)
    assert torch.equal(states[0], torch.ones(3))


def slices(x, y):
    y[1:].mul_(2)
    return x + y


def same_stream(x, y):
    with torchair.scope.npu_stream_switch("1"):
        y.add_(x)
        y.mul_(2)
    return y + x


def across_streams(x, y):
    with torchair.scope.npu_stream_switch("1"):
        z = x * 2
    with torchair.scope.npu_stream_switch("2"):
        z.add_(y)
    y.add_(z)
    return z - x


def several(x, y):
    x.add_(y)
    y.mul_(x)
    x.sub_(1)
    return x * y


@pytest.mark.checklist("T119", "T120")
@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("function", [slices, same_stream, across_streams, several])
def test_writes_in_place(config, function, off) -> None:
    """Options decide where results lie. Updates of inputs are in place in any case."""
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = off
    config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass = off
    run = compiled(function, config)
    for _ in range(2):
        given = [torch.randn(4, 3), torch.randn(4, 3)]
        copies = [t.clone() for t in given]
        places = [t.data_ptr() for t in given]
        found, wanted = run(*given), function(*copies)
        torch.testing.assert_close(found, wanted)
        for one, other in zip(given, copies):
            torch.testing.assert_close(one, other)
        assert [t.data_ptr() for t in given] == places


@pytest.mark.checklist("T120")
def test_copies_to_itself_and_to_others(config) -> None:
    def function(x, y):
        x.copy_(x)
        torch.Tensor.copy_(y, torch.zeros_like(x))
        return x + y

    x, y = torch.ones(3), torch.ones(3)
    assert torch.equal(compiled(function, config)(x, y), torch.ones(3))
    assert torch.equal(y, torch.zeros(3))
