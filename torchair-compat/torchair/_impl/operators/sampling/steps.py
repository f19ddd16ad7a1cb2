"""The next step of decoding: tokens, positions and slots; and exponential random numbers.

After Ascend's API reference of torch_npu, pages npu_advance_step_flashattn and
npu_sim_exponential_."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator
from ..schema import Written

_NAME = "npu_advance_step_flashattn"


@npu_operator
def npu_advance_step_flashattn(
    input_tokens: Written,
    sampled_token_ids: Tensor,
    input_positions: Written,
    seq_lens: Written,
    slot_mapping: Written,
    block_tables: Tensor,
    num_seqs: int,
    num_queries: int,
    block_size: int,
    *,
    spec_token: Tensor | None = None,
    accepted_num: Tensor | None = None,
) -> None:
    """Writes what the next step of decoding reads. All tensors are int64.

    input_tokens, input_positions, seq_lens, slot_mapping  (num_seqs,): the sampled token,
                 the length so far, that plus one, and the slot of the position in the
                 sequence's row of block_tables. Rows from num_queries on become 0, 0, as
                 they are, and -1
    sampled_token_ids  (num_queries, 1)
    block_tables (num_seqs, pages)
    spec_token   (num_seqs, drafts): drafted tokens. The four tensors have (1 + drafts) rows
                 for each sequence: the last sampled token that is not -1 and the drafts;
                 positions plus 1 + `accepted_num` (num_seqs,); these plus one; their slots.
                 sampled_token_ids is (num_seqs, 1 + drafts)

    RuntimeError: another shape or dtype.
    """
    tensors = {
        "input_tokens": input_tokens,
        "sampled_token_ids": sampled_token_ids,
        "input_positions": input_positions,
        "seq_lens": seq_lens,
        "slot_mapping": slot_mapping,
        "block_tables": block_tables,
        "spec_token": spec_token,
        "accepted_num": accepted_num,
    }
    for what, tensor in tensors.items():
        check_dtype(tensor, _NAME, what, (torch.int64,))
    inside = 0 < num_queries <= num_seqs
    text = f"num_queries must be from 1 to num_seqs {num_seqs}, got {num_queries}"
    check(inside, _NAME, text)
    check(block_size > 0, _NAME, f"block_size must be positive, got {block_size}")
    both = (spec_token is None) == (accepted_num is None)
    check(both, _NAME, "spec_token and accepted_num go together")
    drafts = 0 if spec_token is None else spec_token.shape[-1]
    for what in ("input_tokens", "input_positions", "seq_lens", "slot_mapping"):
        check_shape(tensors[what], _NAME, what, (num_seqs * (1 + drafts),))
    pages = block_tables.shape[-1]
    check_shape(block_tables, _NAME, "block_tables", (num_seqs, pages))
    if spec_token is None or accepted_num is None:
        check_shape(sampled_token_ids, _NAME, "sampled_token_ids", (num_queries, 1))
        tokens, positions, ends = _plain(sampled_token_ids, seq_lens, num_queries)
    else:
        check(num_queries == num_seqs, _NAME, "num_queries must be num_seqs for drafts")
        check_shape(spec_token, _NAME, "spec_token", (num_seqs, drafts))
        check_shape(accepted_num, _NAME, "accepted_num", (num_seqs,))
        given = (num_seqs, 1 + drafts)
        check_shape(sampled_token_ids, _NAME, "sampled_token_ids", given)
        steps = accepted_num.repeat_interleave(1 + drafts) + 1
        tokens = torch.cat([_last(sampled_token_ids), spec_token], 1).reshape(-1)
        positions = input_positions + steps
        ends = positions + 1
    rows = torch.arange(num_seqs, device=block_tables.device)
    rows = rows.repeat_interleave(1 + drafts)[: tokens.shape[0]]
    page = (positions // block_size).clamp(max=pages - 1)
    slots = block_tables[rows, page] * block_size + positions % block_size
    for tensor, value, fill in (
        (input_tokens, tokens, 0),
        (input_positions, positions, 0),
        (slot_mapping, slots, -1),
    ):
        rest = tensor.new_full((tensor.shape[0] - value.shape[0],), fill)
        tensor.copy_(torch.cat([value, rest]))
    seq_lens.copy_(torch.cat([ends, seq_lens[ends.shape[0] :]]))


def _plain(
    sampled: Tensor, lengths: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    positions = lengths[:count]
    return sampled.reshape(-1), positions, positions + 1


def _last(sampled: Tensor) -> Tensor:
    """The last token of each row before -1, (rows, 1)."""
    places = (sampled != -1).to(torch.int64).cumprod(1).sum(1, keepdim=True)
    return sampled.gather(1, (places - 1).clamp(min=0))


@npu_operator
def npu_sim_exponential_(
    self: Written,
    lambd: float = 1,
    *,
    generator: Annotated[Any, "Generator?"] = None,
) -> Written:
    """Fills the tensor with exponential random numbers of the rate `lambd`, none of them 0;
    with zeros for an infinite rate. RuntimeError: a rate that is not positive."""
    name = "npu_sim_exponential_"
    check(lambd > 0, name, f"expects lambd > 0.0, got {lambd}")
    check_dtype(self, name, "self")
    if lambd == float("inf"):
        return self.zero_()
    return self.exponential_(lambd, generator=generator)
