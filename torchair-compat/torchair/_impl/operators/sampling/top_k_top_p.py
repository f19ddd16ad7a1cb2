"""Filters of logits by count and by sum of probabilities, and a choice among the rest.

After Ascend's API reference of torch_npu, pages npu_top_k_top_p and
npu_top_k_top_p_sample."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator_of

_MOST = 1024


@npu_operator_of("(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor")
def npu_top_k_top_p(
    logits: Tensor, p: Tensor | None = None, k: Tensor | None = None
) -> Tensor:
    """The logits of each row that are among its k largest, and then among the fewest whose
    probabilities sum to p; -inf in the place of the others. Computed in f32.

    logits  a float tensor (b, v)
    p       (b,) in the dtype of logits, from 0 to 1; None keeps all
    k       int32 (b,), from 1 to v; None keeps all

    Logits as large as the k-th are kept too, and always the largest. RuntimeError: another
    shape or dtype.
    """
    name = "npu_top_k_top_p"
    _check_logits(logits, name)
    batch = logits.shape[:1]
    check_dtype(p, name, "p", (logits.dtype,))
    check_shape(p, name, "p", tuple(batch))
    check_dtype(k, name, "k", (torch.int32,))
    check_shape(k, name, "k", tuple(batch))
    ordered = _ascending(logits)
    values = ordered.values
    if k is not None:
        place = (values.shape[-1] - k.to(torch.int64)).unsqueeze(-1)
        least = values.gather(-1, place.clamp(0, values.shape[-1] - 1))
        values = values.masked_fill(values < least, -torch.inf)
    if p is not None:
        sums = values.softmax(-1).cumsum(-1)
        dropped = sums <= 1 - p.to(torch.float32).unsqueeze(-1)
        values = values.masked_fill(dropped & _but_last(values), -torch.inf)
    return values.gather(-1, ordered.ranks).to(logits.dtype)


class _Ordered(NamedTuple):
    values: Tensor  # f32, ascending
    ranks: Tensor  # the place of each element among them


def _ascending(logits: Tensor) -> _Ordered:
    values, indices = logits.to(torch.float32).sort(dim=-1, stable=True)
    return _Ordered(values, indices.argsort(-1))


def _but_last(values: Tensor) -> Tensor:
    places = torch.arange(values.shape[-1], device=values.device)
    return places < values.shape[-1] - 1


def _check_logits(logits: Tensor, name: str) -> None:
    check_dtype(logits, name, "logits")
    check(logits.dim() == 2, name, f"logits must have 2 dimensions, got {logits.dim()}")


@npu_operator_of(
    "(Tensor logits, Tensor top_k, Tensor top_p, Tensor? q=None, float? eps=1e-08, bool?"
    " is_need_logits=False, int? top_k_guess=32, Tensor? min_ps=None, int? ks_max=1024,"
    " bool? input_is_logits=True, str? post_sample='qSample', Generator? generator=None)"
    " -> (Tensor, Tensor)"
)
def npu_top_k_top_p_sample(
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None = None,
    eps: float | None = 1e-8,
    is_need_logits: bool | None = False,
    top_k_guess: int | None = 32,
    min_ps: Tensor | None = None,
    ks_max: int | None = _MOST,
    input_is_logits: bool | None = True,
    post_sample: str | None = "qSample",
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Chooses one token for each row of logits (b, v), among those that top_k, top_p and
    min_ps leave. Computed in f32.

    top_k        int32 (b,): keeps the k largest; numbers below 1 or above min(v, ks_max)
                 keep all
    top_p        (b,) in the dtype of logits: keeps the fewest of the largest whose
                 probabilities sum to p; up to 0 the largest alone, from 1 on all
    min_ps       (b,) in the dtype of logits: keeps what is at least this share of the
                 largest probability; values outside of 0 to 1 keep all
    q            float32 (b, v) for post_sample "qSample": the token of the largest
                 probability over |q| + eps is chosen. int64 (rows, 2) of seed and offset
                 for "multiNomial", of which further rows of logits take the last: the
                 token is drawn by PyTorch's generator with the sum of the two as its seed.
                 None: the largest
    input_is_logits  whether a softmax makes the probabilities of logits; else they are such

    Returns the tokens, int64 (b,), and with `is_need_logits` the logits that are left, f32
    (b, v), with -inf (0, for probabilities) in the place of the others; else an empty
    tensor. `top_k_guess` is for an NPU's search. RuntimeError: another shape or dtype.
    """
    name = "npu_top_k_top_p_sample"
    _check_sample(name, logits, top_k, top_p, min_ps, q, generator)
    known = ks_max is None or ks_max > 0
    check(known, name, f"ks_max must be positive, got {ks_max}")
    most = min(logits.shape[-1], ks_max or _MOST, _MOST)
    kept = _largest_first(logits, top_k, most)
    wide = logits.to(torch.float32)
    outside = -torch.inf if input_is_logits else 0.0
    left = wide.masked_fill(~kept, outside)
    probabilities = left.softmax(-1) if input_is_logits else left
    kept = kept & _nucleus(probabilities, kept, top_p)
    if min_ps is not None:
        kept = kept & _share_of_largest(probabilities, min_ps)
    chances = probabilities.masked_fill(~kept, 0.0)
    chosen = _choose(name, chances, q, eps or 0.0, post_sample)
    if not is_need_logits:
        return chosen, wide.new_empty(0)
    return chosen, wide.masked_fill(~kept, outside)


def _check_sample(
    name: str,
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_ps: Tensor | None,
    q: Tensor | None,
    generator: torch.Generator | None,
) -> None:
    _check_logits(logits, name)
    batch = logits.shape[0]
    check_dtype(top_k, name, "top_k", (torch.int32,))
    for what, table in (("top_p", top_p), ("min_ps", min_ps)):
        check_dtype(table, name, what, (logits.dtype,))
        check_shape(table, name, what, (batch,), (batch, 1))
    check_shape(top_k, name, "top_k", (batch,), (batch, 1))
    text = "generator must be None beside q, which has the seeds"
    check(generator is None or q is None, name, text)


def _largest_first(logits: Tensor, top_k: Tensor, most: int) -> Tensor:
    """Whether each logit is among the k largest of its row, the earlier of equal ones."""
    k = top_k.reshape(-1, 1).to(torch.int64)
    k = torch.where((k >= 1) & (k <= most), k, logits.shape[-1])
    wide = logits.to(torch.float32)
    order = wide.sort(dim=-1, descending=True, stable=True).indices
    return order.argsort(-1) < k


def _nucleus(probabilities: Tensor, kept: Tensor, top_p: Tensor) -> Tensor:
    """Whether the probabilities before each one, from the largest on, sum to less than
    p."""
    p = top_p.reshape(-1, 1).to(torch.float32)
    ranked = probabilities.masked_fill(~kept, -1.0)
    values, order = ranked.sort(dim=-1, descending=True, stable=True)
    values = values.clamp(min=0)
    before = values.cumsum(-1) - values
    first = torch.arange(values.shape[-1], device=values.device) == 0
    inside = ((before < p) & (p > 0)) | first | (p >= 1)
    return inside.gather(-1, order.argsort(-1))


def _share_of_largest(probabilities: Tensor, min_ps: Tensor) -> Tensor:
    share = min_ps.reshape(-1, 1).to(torch.float32)
    counts = (share > 0) & (share <= 1)
    least = probabilities.amax(-1, keepdim=True) * share
    return (probabilities >= least) | ~counts


def _choose(
    name: str, chances: Tensor, q: Tensor | None, eps: float, post_sample: str | None
) -> Tensor:
    known = post_sample in ("qSample", "multiNomial", "None", None)
    text = f"post_sample must be qSample, multiNomial or None, got {post_sample!r}"
    check(known, name, text)
    if q is None or post_sample in ("None", None):
        return chances.argmax(-1)
    if post_sample == "qSample":
        check_dtype(q, name, "q", (torch.float32,))
        check_shape(q, name, "q", tuple(chances.shape))
        return (chances / (q.abs() + eps)).argmax(-1)
    check_dtype(q, name, "q", (torch.int64,))
    fits = q.dim() == 2 and q.shape[0] >= 1 and q.shape[1] == 2
    check(fits, name, f"q must have shape (rows, 2), got {tuple(q.shape)}")
    return _draw(chances, q)


def _draw(chances: Tensor, q: Tensor) -> Tensor:
    """A token for each row by the seeds of q, which a graph does not know."""
    seeds = q.sum(-1).tolist()
    drawn = []
    for row, chance in enumerate(chances):
        generator = torch.Generator().manual_seed(seeds[min(row, len(seeds) - 1)])
        drawn.append(torch.multinomial(chance, 1, generator=generator))
    return torch.cat(drawn)
