"""npu_chunk_gated_delta_rule: whole prompts, in chunks of tokens.

After Ascend's API reference of torch_npu, page npu_chunk_gated_delta_rule, and the paper
that it names, Gated Delta Networks (arXiv 2412.06464), for the algebra of a chunk."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from .recurrent import check_heads

_CHUNK = 64


@npu_operator
def npu_chunk_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    beta: Tensor | None = None,
    initial_state: Tensor | None = None,
    actual_seq_lengths: Tensor | None = None,
    scale: float | None = None,
    g: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """For the tokens of each sequence in turn: S = exp(g) S, then S = S + beta (v - S k)
    k^T, and the result is S q scale; computed in f32.

    query, key  (t, nk, dk) float; each of them serves nv / nk heads of value
    value       (t, nv, dv)
    beta        (t, nv) float
    initial_state  (b, nv, dv, dk) float: the S that each sequence begins with
    actual_seq_lengths  (b,) int32: the tokens of each sequence
    scale       None: 1
    g           (t, nv) f32, not above 0; None: 0

    Returns (t, nv, dv) in query's dtype, zeros for tokens of no sequence; and the last S
    of each sequence, in the dtype of initial_state. RuntimeError: another shape, dtype or
    length.
    """
    name = "npu_chunk_gated_delta_rule"
    check_heads(name, query, key, value)
    for what, given in (
        ("beta", beta),
        ("initial_state", initial_state),
        ("actual_seq_lengths", actual_seq_lengths),
    ):
        check(given is not None, name, f"{what} is needed")
    assert beta is not None and initial_state is not None
    assert actual_seq_lengths is not None
    count, heads, width = value.shape
    batch = actual_seq_lengths.numel()
    for what, tensor, shape in (
        ("beta", beta, (count, heads)),
        ("g", g, (count, heads)),
        ("initial_state", initial_state, (batch, heads, width, key.shape[2])),
    ):
        check_dtype(tensor, name, what, FLOATS)
        check_shape(tensor, name, what, shape)
    check_dtype(actual_seq_lengths, name, "actual_seq_lengths", INTEGERS)
    check_shape(actual_seq_lengths, name, "actual_seq_lengths", (batch,))
    longest = _longest(name, actual_seq_lengths, count)
    sizes = actual_seq_lengths.to(torch.int64)
    starts = sizes.cumsum(0) - sizes
    numbers = torch.arange(longest, device=value.device)
    inside = numbers < sizes.unsqueeze(-1)
    at = (starts.unsqueeze(-1) + numbers).clamp(0, max(count - 1, 0))

    def padded(tensor: Tensor) -> Tensor:
        """(b, heads, longest, ...) of the tokens (t, heads, ...), zeros after them."""
        rows = tensor.to(torch.float32)[at]
        shape = [*inside.shape] + [1] * (rows.dim() - 2)
        return torch.where(inside.reshape(shape), rows, 0.0).transpose(1, 2)

    groups = heads // key.shape[1]
    q, k = (padded(t).repeat_interleave(groups, 1) for t in (query, key))
    q = q if scale is None else q * scale
    decay = value.new_zeros(count, heads) if g is None else g
    parts = q, k, padded(value), padded(beta), padded(decay)
    out, state = _by_chunks(*parts, initial_state.to(torch.float32))
    rows = out.transpose(1, 2)
    # Each token of a sequence has one place; what stands after sequences goes nowhere.
    target = torch.where(inside, at, count).reshape(-1)
    result = rows.new_zeros(count + 1, heads, width)
    result = result.index_put((target,), rows.flatten(0, 1))[:count]
    return result.to(query.dtype), state.to(initial_state.dtype)


def _longest(name: str, lengths: Tensor, count: int) -> int:
    """The tokens of the longest sequence; in a graph, the most there may be."""
    if not reads_values(lengths):
        return count
    numbers = lengths.tolist()
    fits = all(n >= 0 for n in numbers) and sum(numbers) <= count
    text = f"actual_seq_lengths must add up to at most {count}, got {numbers}"
    check(fits, name, text)
    return max(numbers, default=0)


def _by_chunks(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The results (b, heads, tokens, dv) and the last state (b, heads, dv, dk)."""
    made = []
    for start in range(0, q.shape[2], _CHUNK):
        part = slice(start, start + _CHUNK)
        states = (q[:, :, part], k[:, :, part], v[:, :, part])
        out, state = _chunk(*states, beta[:, :, part], g[:, :, part], state)
        made.append(out)
    return torch.cat(made, 2) if made else v, state


def _chunk(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One chunk. With the decay D[t, i] from token i to token t, its corrections u solve
    (1 + A) u = beta (v - D[t, 0] S k), where A[t, i] = beta[t] D[t, i] k[t] k[i], i < t."""
    total = g.cumsum(-1)
    size = g.shape[-1]
    lower = torch.ones(size, size, dtype=torch.bool, device=g.device).tril()
    apart = total.unsqueeze(-1) - total.unsqueeze(-2)
    decay = torch.where(lower, apart, -torch.inf).exp()
    since = total.exp().unsqueeze(-1)
    factor = beta.unsqueeze(-1)
    wanted = factor * (v - since * (k @ state.transpose(-1, -2)))
    links = (factor * decay * (k @ k.transpose(-1, -2))).tril(-1)
    u = torch.linalg.solve_triangular(links, wanted, upper=False, unitriangular=True)
    out = since * (q @ state.transpose(-1, -2))
    out = out + (decay * (q @ k.transpose(-1, -2))) @ u
    until = (total[..., -1:] - total).exp().unsqueeze(-1)
    last = total[..., -1].exp()[..., None, None] * state
    return out, last + (u * until).transpose(-1, -2) @ k


@npu_operator
def npu_recompute_w_u_fwd(
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    A: Tensor,
    chunk_size: int,
    *,
    g: Tensor | None = None,
    gk: Tensor | None = None,
    cu_seqlens: list[int] | None = None,
    chunk_indices: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """w = A (beta exp(g) exp(gk) k) and u = A (beta v) of each chunk, computed in f32.

    k        (b, hk, t, dk) float; each head serves h / hk heads of v
    v        (b, h, t, dv)
    beta     (b, h, t) float
    A        (b, h, t, chunk_size): for each token its row of the chunk's matrix
    g, gk    (b, h, t) and (b, h, t, dk) float; None: 0
    cu_seqlens  the ends of the sequences of b = 1, from 0 on, which begin a chunk each;
             None: each row of the batch is a sequence
    chunk_indices  pairs of sequence and chunk, which cu_seqlens tells already

    Returns w (b, h, t, dk) and u (b, h, t, dv), in the dtypes of k and v. RuntimeError:
    another shape or dtype.
    """
    name = "npu_recompute_w_u_fwd"
    for what, tensor in (("k", k), ("v", v)):
        check_dtype(tensor, name, what, FLOATS)
        check(tensor.dim() == 4, name, f"{what} must have 4 dimensions")
    batch, heads, tokens = v.shape[:3]
    inner = k.shape[3]
    text = f"{heads} heads of v are no multiple of {k.shape[1]} of k"
    check(k.shape[1] > 0 and heads % k.shape[1] == 0, name, text)
    check(chunk_size > 0, name, f"chunk_size must be positive, got {chunk_size}")
    for what, tensor, shape in (
        ("k", k, (batch, k.shape[1], tokens, inner)),
        ("beta", beta, (batch, heads, tokens)),
        ("A", A, (batch, heads, tokens, chunk_size)),
        ("g", g, (batch, heads, tokens)),
        ("gk", gk, (batch, heads, tokens, inner)),
    ):
        check_dtype(tensor, name, what, FLOATS)
        check_shape(tensor, name, what, shape)
    bounds = _bounds(name, cu_seqlens, batch, tokens)
    _check_chunks(name, chunk_indices, bounds, chunk_size)
    factor = beta.to(torch.float32).unsqueeze(-1)
    keys = k.to(torch.float32).repeat_interleave(heads // k.shape[1], 1) * factor
    for decay in (None if g is None else g.unsqueeze(-1), gk):
        keys = keys if decay is None else keys * decay.to(torch.float32).exp()
    values = v.to(torch.float32) * factor
    w, u = [], []
    for start, end in itertools.pairwise(bounds):
        for first in range(start, end, chunk_size):
            part = slice(first, min(first + chunk_size, end))
            rows = A[:, :, part, : part.stop - first].to(torch.float32)
            w.append(rows @ keys[:, :, part])
            u.append(rows @ values[:, :, part])
    joined = [torch.cat(parts, 2) if parts else None for parts in (w, u)]
    found = [
        t.new_empty(0) if made is None else made for made, t in zip(joined, (k, v))
    ]
    return found[0].to(k.dtype), found[1].reshape(v.shape).to(v.dtype)


def _bounds(name: str, ends: list[int] | None, batch: int, tokens: int) -> list[int]:
    if ends is None:
        return [0, tokens]
    numbers = [int(end) for end in ends]
    right = len(numbers) > 1 and numbers == sorted(numbers) and batch == 1
    right = right and numbers[0] == 0 and numbers[-1] == tokens
    text = f"cu_seqlens must ascend from 0 to {tokens}, for a batch of 1"
    check(right, name, f"{text}, got {numbers} for {batch}")
    return numbers


def _check_chunks(
    name: str, given: list[int] | None, bounds: list[int], size: int
) -> None:
    """RuntimeError: chunk_indices are not those that cu_seqlens make."""
    if given is None:
        return
    known = [
        number
        for sequence, (start, end) in enumerate(itertools.pairwise(bounds))
        for chunk in range(-(-(end - start) // size))
        for number in (sequence, chunk)
    ]
    same = [int(number) for number in given] == known
    check(same, name, f"chunk_indices must be {known}, got {list(given)}")
