"""Captured graphs whose attentions get new lengths: by NPUGraph.update, and by groups of
tasks that are recorded anew."""

from __future__ import annotations

import pytest
import torch

import torch_npu

LENGTHS = {"first": [3, 5], "second": [7, 1]}
Q, K, V = (torch.randn(2, 2, n, 8, dtype=torch.float16) for n in (1, 8, 8))
VERSIONS = {
    "one": (torch_npu.npu_fused_infer_attention_score, "actual_seq_lengths_kv"),
    "two": (torch_npu.npu_fused_infer_attention_score_v2, "actual_seq_kvlen"),
}
HEADS = {"one": "num_heads", "two": "num_query_heads"}
SUMS = {"one": "softmax_lse_flag", "two": "return_softmax_lse"}


def options(version, lengths, **more):
    named = {HEADS[version]: 2, VERSIONS[version][1]: lengths}
    return {"input_layout": "BNSD", **named, **more}


def expected(lengths, query=Q):
    """Attention of each sequence's first keys, by PyTorch alone."""
    rows = [
        torch.nn.functional.scaled_dot_product_attention(
            q, k[:, :n], v[:, :n], scale=1.0
        )
        for q, k, v, n in zip(query.float(), K.float(), V.float(), lengths)
    ]
    return torch.stack(rows).half()


def close(found, wanted):
    """Some units in the last place of f16 apart."""
    torch.testing.assert_close(found, wanted, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference"])
def test_update_changes_lengths(version, writes, mode) -> None:
    operator, name = VERSIONS[version]
    captured = torch.npu.NPUGraph()
    modes = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    with modes.get(mode, torch.enable_grad)():
        query = Q.clone()
        with torch.npu.graph(captured, auto_dispatch_capture=True):
            scaled = query * 1
            settings = options(version, LENGTHS["first"])
            if writes:
                result, sums = torch.empty_like(Q), torch.empty(1)
                operator.out(scaled, K, V, **settings, out=[result, sums])
            else:
                result, sums = operator(scaled, K, V, **settings)
            doubled = result * 2
        close(result, expected(LENGTHS["first"]))
        for lengths in (LENGTHS["second"], LENGTHS["first"], LENGTHS["second"]):
            query.copy_(torch.randn_like(query))
            captured.update(cpu_update_input=[{name: lengths}])
            captured.replay()
            close(result, expected(lengths, query))
            close(doubled, result * 2)


def test_each_attention_has_its_update() -> None:
    operator, name = VERSIONS["one"]
    captured = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(captured, auto_dispatch_capture=True):
        results = [
            operator(Q, K, V, **options("one", LENGTHS["first"]))[0] for _ in range(2)
        ]
    captured.update([{}, {name: LENGTHS["second"]}])
    captured.replay()
    for result, lengths in zip(results, LENGTHS.values()):
        close(result, expected(lengths))
    captured.update([{name: [1, 1]}])
    captured.replay()
    for result in results:
        close(result, expected([1, 1]))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_of_tasks_is_recorded_anew(version) -> None:
    operator, _ = VERSIONS[version]
    sums_too = {SUMS[version]: True}
    captured, event = torch.npu.NPUGraph(), torch.npu.ExternalEvent()
    result, sums = torch.empty_like(Q), torch.empty(2, 2, 1, 1)
    workspace = getattr(torch_npu, f"_{operator.__name__}_get_max_workspace")(
        Q, K, V, **options(version, LENGTHS["first"])
    )
    out = {"out": [result, sums], "workspace": workspace, **sums_too}
    with torch.npu.graph(captured):
        stream = torch.npu.current_stream()
        event.wait(stream)
        event.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        operator.out(Q, K, V, **options(version, LENGTHS["first"], **out))
        handle = torch.npu.graph_task_group_end(stream)
        later = result + 1
    captured.replay()
    close(result, expected(LENGTHS["first"]))
    before = result.clone()
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        torch.npu.graph_task_update_begin(side, handle)
        operator.out(Q, K, V, **options(version, LENGTHS["second"], **out))
        torch.npu.graph_task_update_end(side)
        event.record(side)
    assert torch.equal(result, before)  # the update itself computes nothing
    captured.replay()
    close(result, expected(LENGTHS["second"]))
    assert torch.equal(later, result + 1)
    _, eager = operator(Q, K, V, **options(version, LENGTHS["second"], **sums_too))
    close(sums, eager)


def test_a_group_of_other_operators_is_recorded_anew() -> None:
    captured = torch.npu.NPUGraph()
    x = torch.randn(4)
    with torch.no_grad(), torch.npu.graph(captured):
        torch.npu.graph_task_group_begin(None)
        y = x * 2
        handle = torch.npu.graph_task_group_end(None)
        z = y + 1
    torch.npu.graph_task_update_begin(None, handle)
    x * 5
    torch.npu.graph_task_update_end(None)
    captured.replay()
    assert torch.equal(z, x * 5 + 1)
    torch.npu.graph_task_update_begin(None, handle)
    x + 5
    with pytest.raises(RuntimeError, match="the group has the operators.*mul"):
        torch.npu.graph_task_update_end(None)


def test_wrong_uses_are_errors() -> None:
    operator, name = VERSIONS["one"]
    settings = options("one", LENGTHS["first"])
    plain, captured = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    with torch.npu.graph(plain):
        operator(Q, K, V, **settings)
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        plain.update([{name: LENGTHS["second"]}])
    with torch.npu.graph(captured, auto_dispatch_capture=True):
        operator(Q, K, V, **settings)
    with pytest.raises(RuntimeError, match="must have 1 or 1 elements.*got 2"):
        captured.update([{}, {}])
    with pytest.warns(UserWarning, match="no captured attention has.*context_lens"):
        captured.update([{"context_lens": [1, 2]}])
    with pytest.raises(RuntimeError, match="out must have 2 tensors, got 1"):
        operator.out(Q, K, V, **settings, out=[torch.empty_like(Q)])
    with pytest.raises(RuntimeError, match=r"out\[0\] must have shape \(2, 2, 1, 8\)"):
        operator.out(Q, K, V, **settings, out=[torch.empty(2), torch.empty(1)])
    with pytest.raises(RuntimeError, match="group_begin outside a capture"):
        torch.npu.graph_task_group_begin(None)
    with pytest.raises(RuntimeError, match="group_end without a group"):
        torch.npu.graph_task_group_end(None)
    with pytest.raises(RuntimeError, match="update_end without"):
        torch.npu.graph_task_update_end(None)
    plain.capture_begin()
    torch.npu.graph_task_group_begin(None)
    with pytest.raises(RuntimeError, match="inside a group of tasks"):
        plain.capture_end()
    with pytest.raises(RuntimeError, match="before a capture"):
        plain.replay()


def test_an_error_inside_a_capture_is_the_one_that_a_caller_sees() -> None:
    captured = torch.npu.NPUGraph()
    with pytest.raises(ZeroDivisionError), torch.npu.graph(captured):
        torch.npu.graph_task_group_begin(None)
        raise ZeroDivisionError
    assert not torch.npu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match=r"replay\(\) before a capture"):
        captured.replay()
    with torch.npu.graph(captured):
        twice = Q + Q
    captured.replay()
    assert torch.equal(twice, Q * 2)


def test_compiled_attention_writes_to_out() -> None:
    operator, _ = VERSIONS["one"]

    def run(query, result):
        settings = options("one", LENGTHS["first"])
        operator.out(query, K, V, **settings, out=[result, torch.empty(1)])
        return result + 1

    result = torch.empty_like(Q)
    compiled = torch.compile(run, backend="npu", fullgraph=True)
    close(compiled(Q, result), expected(LENGTHS["first"]) + 1)
    close(result, expected(LENGTHS["first"]))
