"""Products of experts joined to exchanges of uneven numbers of rows among ranks.

After Ascend's API reference of torch_npu, pages npu_alltoallv_gmm, npu_gmm_alltoallv and
npu_alltoallv_quant_gmm; and the schema and tests of npu_quant_gmm_alltoallv. Counts stand
in the order (ranks, experts of one rank)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import check, check_dtype
from ..definition import npu_operator
from ..products.rank_groups import check_group, check_turns, exchanged_rows

_HALF = (torch.float16, torch.bfloat16)


class Counts(NamedTuple):
    """How many rows a rank sends and receives, and the experts of one rank."""

    send: list[int]
    receive: list[int]
    experts: int
    hcom: str

    def exchanged(self, rows: Tensor) -> Tensor:
        """The rows that this rank receives, in the order (ranks, experts)."""
        sizes = self._of_ranks(self.send), self._of_ranks(self.receive)
        return exchanged_rows(rows, *sizes, self.hcom)

    def _of_ranks(self, counts: list[int]) -> list[int]:
        starts = range(0, len(counts), self.experts)
        return [sum(counts[start : start + self.experts]) for start in starts]

    def by_expert(self, rows: Tensor) -> Tensor:
        """Rows that were received, in the order (experts, ranks)."""
        pieces = rows.split(self.receive)
        lines = (pieces[one :: self.experts] for one in range(self.experts))
        return torch.cat([*itertools.chain(*lines)])

    def by_rank(self, rows: Tensor) -> Tensor:
        """Rows to be sent that are in the order (experts, ranks), in the other order."""
        lines = (self.send[one :: self.experts] for one in range(self.experts))
        pieces = rows.split([*itertools.chain(*lines)])
        ranks = len(self.send) // self.experts
        orders = (pieces[rank::ranks] for rank in range(ranks))
        return torch.cat([*itertools.chain(*orders)])


def checked_counts(
    name: str,
    x: Tensor,
    weight: Tensor,
    hcom: str,
    size: int,
    counts: tuple[list[int], list[int]],
    tensors: tuple[Tensor | None, Tensor | None],
    comm_mode: str | None,
) -> Counts:
    """The counts of a call. RuntimeError: operands, counts or options that don't fit."""
    ranks = check_group(name, hcom, size, "ep_world_size")
    check_turns(name, 0, comm_mode)
    for what, operand, dims in (("gmm_x", x, 2), ("gmm_weight", weight, 3)):
        text = f"{what} must have {dims} dimensions, got {operand.dim()}"
        check(operand.dim() == dims, name, text)
    experts = weight.shape[0]
    for what, given, tensor in zip(("send", "recv"), counts, tensors):
        text = f"{what}_counts_tensor must be None: give {what}_counts"
        check(tensor is None, name, text)
        wanted = experts * ranks
        text = f"{what}_counts must have {wanted} counts, {experts} for each of {ranks}"
        check(len(given) == wanted, name, f"{text} ranks, got {len(given)}")
        least = f"{what}_counts must not be negative, got {given}"
        check(min(given, default=0) >= 0, name, least)
    rows, total = x.shape[0], sum(counts[0])
    text = f"send_counts must add up to the {rows} rows of gmm_x, got {total}"
    check(total == rows, name, text)
    return Counts(list(counts[0]), list(counts[1]), experts, hcom)


def _of_floats(
    name: str, x: Tensor, weight: Tensor, turned: bool, of_rows: str, of_weight: str
) -> Tensor:
    """The weight as the operand of a product of x in its dtype."""
    check_dtype(x, name, of_rows, _HALF)
    check_dtype(weight, name, of_weight, (x.dtype,))
    made = weight.transpose(-1, -2) if turned else weight
    fits = made.dim() >= 2 and made.shape[-2] == x.shape[-1]
    text = f"{of_weight} of {tuple(weight.shape)} does not fit {of_rows} of"
    check(fits, name, f"{text} {tuple(x.shape)}")
    return made


def _shared(
    name: str, x: Tensor | None, weight: Tensor | None, turned: bool, like: Tensor
) -> Tensor:
    """The product of the shared experts, or an empty tensor."""
    both = (x is None) == (weight is None)
    check(both, name, "mm_x and mm_weight go together")
    if x is None or weight is None:
        check(not turned, name, "trans_mm_weight needs mm_weight")
        return like.new_empty(0)
    check(x.dim() == 2, name, f"mm_x must have 2 dimensions, got {x.dim()}")
    check(weight.dim() == 2, name, f"mm_weight must have 2, got {weight.dim()}")
    return x @ _of_floats(name, x, weight, turned, "mm_x", "mm_weight")


@npu_operator
def npu_alltoallv_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: list[int],
    recv_counts: list[int],
    *,
    send_counts_tensor: Tensor | None = None,
    recv_counts_tensor: Tensor | None = None,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out_flag: bool = False,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sends rows to the ranks of their experts, multiplies what arrives, ordered by expert,
    by the expert's weight, and returns (products, mm_x @ mm_weight, the ordered rows).

    gmm_x        (rows, h) float16 or bfloat16, in the order (ranks, experts of the rank)
    gmm_weight   (experts of this rank, h, n), or with `trans_gmm_weight` (experts, n, h)
    send_counts  rows for each rank and each of its experts; recv_counts: rows from each
                 rank for each expert here
    mm_x, mm_weight   of shared experts: (m, k) and (k, n), or with `trans_mm_weight` (n, k)
    permute_out_flag  whether the ordered rows are returned; else an empty tensor

    RuntimeError: another shape, dtype, group, count or option.
    """
    name = "npu_alltoallv_gmm"
    both = (send_counts, recv_counts), (send_counts_tensor, recv_counts_tensor)
    counts = checked_counts(
        name, gmm_x, gmm_weight, hcom, ep_world_size, *both, comm_mode
    )
    told = trans_gmm_weight, "gmm_x", "gmm_weight"
    weight = _of_floats(name, gmm_x, gmm_weight, *told)
    rows = counts.by_expert(counts.exchanged(gmm_x))
    made = _multiplied(rows, weight, counts.receive)
    shared = _shared(name, mm_x, mm_weight, trans_mm_weight, gmm_x)
    return made, shared, rows if permute_out_flag else rows.new_empty(0)


def sizes_of_experts(counts: list[int], experts: int) -> list[int]:
    """The rows of each expert."""
    return [sum(counts[one::experts]) for one in range(experts)]


def _multiplied(rows: Tensor, weight: Tensor, counts: list[int]) -> Tensor:
    """The product of the rows of each expert by its weight."""
    parts = rows.split(sizes_of_experts(counts, weight.shape[0]))
    return torch.cat([part @ weight[one] for one, part in enumerate(parts)])


@npu_operator
def npu_gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    ep_world_size: int,
    send_counts: list[int],
    recv_counts: list[int],
    *,
    send_counts_tensor: Tensor | None = None,
    recv_counts_tensor: Tensor | None = None,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_alltoallv_gmm backwards: multiplies the rows of each expert by its weight, and
    sends each product to the rank that the row came from.

    gmm_x        (rows, h), in the order (experts here, ranks)
    send_counts  rows for each rank of each expert here; recv_counts: rows from each rank
                 and each of its experts, in whose order the result (rows, n) is

    Returns (products, mm_x @ mm_weight). RuntimeError: as npu_alltoallv_gmm.
    """
    name = "npu_gmm_alltoallv"
    both = (send_counts, recv_counts), (send_counts_tensor, recv_counts_tensor)
    counts = checked_counts(
        name, gmm_x, gmm_weight, hcom, ep_world_size, *both, comm_mode
    )
    told = trans_gmm_weight, "gmm_x", "gmm_weight"
    weight = _of_floats(name, gmm_x, gmm_weight, *told)
    made = _multiplied(gmm_x, weight, counts.send)
    shared = _shared(name, mm_x, mm_weight, trans_mm_weight, gmm_x)
    return counts.exchanged(counts.by_rank(made)), shared
