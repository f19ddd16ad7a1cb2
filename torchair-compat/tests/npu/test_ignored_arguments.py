"""No operator of torch_npu ignores an argument: a value that it cannot mean changes the
result, or is an error that names the operator and the argument. README.md lists what is
left, with the reason why it has nothing to change."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves

import torch_npu
from operator_calls import CALLS, call, parameters, wrong_values
from torchair._impl.operators.routing import dispatch, dispatch_v2, transport

README = Path(__file__).parents[2] / "README.md"
# These have tests of their own: ranks, formats, and operators without a result.
ELSEWHERE = {
    "npu_all_gather_base_mm",
    "npu_all_gather_quant_mm",
    "npu_all_to_all_matmul",
    "npu_all_to_all_quant_matmul",
    "npu_alltoallv_gmm",
    "npu_alltoallv_quant_gmm",
    "npu_format_cast",
    "npu_format_cast_",
    "_npu_multi_head_latent_attention_get_workspace",
    "_npu_paged_attention_get_workspace",
    "_npu_paged_attention_v2_get_workspace",
    "npu_gmm_alltoallv",
    "npu_matmul_all_to_all",
    "npu_mm_all_reduce_base",
    "npu_mm_reduce_scatter_base",
    "npu_moe_distribute_combine",
    "npu_moe_distribute_combine_add_rms_norm",
    "npu_moe_distribute_combine_v2",
    "npu_moe_distribute_dispatch",
    "npu_moe_distribute_dispatch_v2",
    "npu_prefetch",
    "npu_quant_gmm_alltoallv",
    "npu_quant_matmul_all_to_all",
    "npu_quant_mm_reduce_scatter",
}
ERRORS = (RuntimeError, ValueError, NotImplementedError, TypeError, IndexError)


def listed() -> set[tuple[str, str]]:
    """(operator, argument) of each row of the table in README.md."""
    text = README.read_text(encoding="utf-8").partition("Arguments that change nothing")
    found = set()
    for operators, arguments in re.findall(
        r"^\| (`.*?) \| (`.*?) \|", text[2], re.MULTILINE
    ):
        for operator in re.findall(r"`(\w+)`", operators):
            found |= {(operator, a) for a in re.findall(r"`(\w+)`", arguments)}
    return found


def outcome(name, arguments, without):
    """The results, and the arguments but one, which the operator may have written."""
    torch.manual_seed(0)
    results, given = call(name, arguments)
    return tree_leaves([results, {k: v for k, v in given.items() if k != without}])


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(first, second)
    )


def is_ignored(name, right, argument, value) -> bool:
    """Whether the call's results stay as they are. An error must name the operator and
    the argument."""
    try:
        results = outcome(name, {**right, argument: value}, argument)
    except ERRORS as error:
        text = str(error)
        assert name in text
        assert argument in text.replace(name, "")
        return False
    return same(outcome(name, right, argument), results)


@pytest.mark.parametrize("end", ["dispatch", "combine", "dispatch_v2", "combine_v2"])
def test_arguments_of_ranks_are_read_or_listed(end) -> None:
    """These operators need a group of ranks: what their sources never read is ignored."""
    name = f"npu_moe_distribute_{end}"
    overload = getattr(torch.ops.npu, name).default
    version = dispatch_v2 if end.endswith("v2") else dispatch
    read = names_read_by(version) | names_read_by(transport)
    # Refused before.
    wrong = {"out_dtype", "group_list_type", "elastic_info"}
    wrong |= {"x_dtype", "y_dtype", "scales_dtype"}
    taken = {argument.name for argument in overload._schema.arguments} - wrong
    assert taken - read == {argument for found, argument in listed() if found == name}


def names_read_by(module) -> set[str]:
    """The attributes that a module reads, and the texts by which it may read them."""
    nodes = [*ast.walk(ast.parse(inspect.getsource(module)))]
    texts = {n.value for n in nodes if isinstance(n, ast.Constant)}
    return {n.attr for n in nodes if isinstance(n, ast.Attribute)} | texts


def test_each_operator_has_a_call() -> None:
    public = {name for name in torch_npu.__all__ if re.match("npu_|scatter", name)}
    public |= {name for name in dir(torch.ops.atb) if re.match("_?npu_", name)}
    assert public - ELSEWHERE == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_no_argument_is_ignored(name) -> None:
    variants = CALLS[name]
    calls = variants if isinstance(variants, list) else [variants]
    ignored = {
        (name, argument)
        for argument, kind, default in parameters(name)
        if any(
            all(is_ignored(name, right, argument, value) for right in calls)
            for value in wrong_values(argument, kind, calls[0].get(argument, default))
        )
    }
    assert ignored == {pair for pair in listed() if pair[0] == name}
