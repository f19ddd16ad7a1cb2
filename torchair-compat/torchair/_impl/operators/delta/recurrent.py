"""npu_recurrent_gated_delta_rule: some tokens of each sequence, one after another.

After Ascend's API reference of torch_npu, page npu_recurrent_gated_delta_rule."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ..checks import FLOATS, INTEGERS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from ..schema import Written

_MOST = 8  # tokens of a sequence


@npu_operator
def npu_recurrent_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Written,
    *,
    beta: Tensor | None = None,
    scale: float | None = None,
    actual_seq_lengths: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    g: Tensor | None = None,
    gk: Tensor | None = None,
) -> Tensor:
    """For the tokens of each sequence in turn: S = exp(g) S exp(gk), then S = S + beta (v -
    S k) k^T, and the result is S q scale; computed in f32.

    query, key  (t, nk, dk) float; each of them serves nv / nk heads of value
    value       (t, nv, dv)
    state       (blocks, nv, dv, dk) float: the S of each token, written
    beta        (t, nv) float; None: 1
    scale       None: 1 / sqrt(dk)
    actual_seq_lengths  (b,) int32: the tokens of each sequence, at most 8
    ssm_state_indices  (t,) int32: the block of the S of each token
    num_accepted_tokens  (b,) int32: a sequence begins with the S that its token of this
                number, from 1 on, names; None: 1
    g, gk       (t, nv) and (t, nv, dk) f32; None: 0

    Returns (t, nv, dv) in query's dtype; zeros for tokens of no sequence. RuntimeError:
    another shape, dtype or length.
    """
    name = "npu_recurrent_gated_delta_rule"
    tokens = _Tokens(name, query, key, value, beta, g, gk, scale)
    tokens.check(state)
    sequences = actual_seq_lengths, ssm_state_indices, num_accepted_tokens
    return tokens.run(state, *sequences)


@npu_operator
def npu_recurrent_gated_delta_rule_functional(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    *,
    beta: Tensor | None = None,
    scale: float | None = None,
    actual_seq_lengths: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    g: Tensor | None = None,
    gk: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """npu_recurrent_gated_delta_rule of a copy of the state, which is its second result.
    RuntimeError: as there."""
    name = "npu_recurrent_gated_delta_rule_functional"
    tokens = _Tokens(name, query, key, value, beta, g, gk, scale)
    tokens.check(state)
    copied = state.clone()
    sequences = actual_seq_lengths, ssm_state_indices, num_accepted_tokens
    return tokens.run(copied, *sequences), copied


@dataclasses.dataclass(frozen=True)
class _Tokens:
    """The operands of one call that belong to tokens."""

    name: str
    query: Tensor
    key: Tensor
    value: Tensor
    beta: Tensor | None
    g: Tensor | None
    gk: Tensor | None
    scale: float | None

    def check(self, state: Tensor) -> None:
        check_heads(self.name, self.query, self.key, self.value)
        count, heads, width = self.value.shape
        inner = self.key.shape[2]
        for what, tensor, shape in (
            ("beta", self.beta, (count, heads)),
            ("g", self.g, (count, heads)),
            ("gk", self.gk, (count, heads, inner)),
        ):
            check_dtype(tensor, self.name, what)
            check_shape(tensor, self.name, what, shape)
        check_dtype(state, self.name, "state")
        text = f"state must be (blocks, {heads}, {width}, {inner})"
        right = tuple(state.shape[1:]) == (heads, width, inner)
        check(right, self.name, f"{text}, got {tuple(state.shape)}")

    def run(
        self,
        state: Tensor,
        lengths: Tensor | None,
        slots: Tensor | None,
        accepted: Tensor | None,
    ) -> Tensor:
        name, count = self.name, self.value.shape[0]
        for what, given in (
            ("actual_seq_lengths", lengths),
            ("ssm_state_indices", slots),
        ):
            check(given is not None, name, f"{what} is needed")
        assert lengths is not None and slots is not None
        for what, tensor in (
            ("actual_seq_lengths", lengths),
            ("ssm_state_indices", slots),
            ("num_accepted_tokens", accepted),
        ):
            check_dtype(tensor, name, what, INTEGERS)
        batch = lengths.numel()
        check_shape(lengths, name, "actual_seq_lengths", (batch,))
        check_shape(slots, name, "ssm_state_indices", (count,))
        check_shape(accepted, name, "num_accepted_tokens", (batch,))
        sizes, block = lengths.to(torch.int64), slots.to(torch.int64)
        steps = self._steps(lengths, count)
        starts = sizes.cumsum(0) - sizes
        last = (starts + sizes - 1).clamp(0, max(count - 1, 0))
        first = starts
        if accepted is not None:
            first = starts + accepted.to(torch.int64) - 1
        current = state[block[first.clamp(0, max(count - 1, 0))]].to(torch.float32)
        result = torch.zeros_like(self.value, dtype=torch.float32)
        for step in range(steps):
            # After its last token a sequence writes that token's values once more.
            at = torch.minimum(starts + step, last)
            live = step < sizes
            current, out = self._step(current, at, live)
            kept = torch.where(live[:, None, None], out, result[at])
            result = result.index_put((at,), kept)
            state.index_put_((block[at],), current.to(state.dtype))
        return result.to(self.query.dtype)

    def _steps(self, lengths: Tensor, count: int) -> int:
        """The tokens of the longest sequence; in a graph, the most there may be."""
        if not reads_values(lengths):
            return min(_MOST, count - lengths.numel() + 1)
        numbers = lengths.tolist()
        fits = all(1 <= n <= _MOST for n in numbers) and sum(numbers) <= count
        text = f"actual_seq_lengths must be from 1 to {_MOST} and add up to at most"
        check(fits, self.name, f"{text} {count}, got {numbers}")
        return max(numbers, default=0)

    def _step(self, state: Tensor, at: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        """The states (b, nv, dv, dk) and the results (b, nv, dv) of the tokens `at`; states
        of sequences that are not live stay."""
        groups = self.value.shape[1] // self.key.shape[1]
        q, k = (
            t[at].to(torch.float32).repeat_interleave(groups, 1).unsqueeze(-2)
            for t in (self.query, self.key)
        )
        scale = self.key.shape[2] ** -0.5 if self.scale is None else self.scale
        decayed = state
        if self.g is not None:
            decayed = decayed * self.g[at].to(torch.float32).exp()[..., None, None]
        if self.gk is not None:
            decayed = decayed * self.gk[at].to(torch.float32).exp().unsqueeze(-2)
        missing = self.value[at].to(torch.float32) - (decayed * k).sum(-1)
        if self.beta is not None:
            missing = missing * self.beta[at].to(torch.float32).unsqueeze(-1)
        made = decayed + missing.unsqueeze(-1) * k
        made = torch.where(live[:, None, None, None], made, state)
        return made, (made * (q * scale)).sum(-1)


def check_heads(name: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    """RuntimeError: query, key (t, nk, dk) and value (t, nv, dv) do not fit together."""
    check_dtype(query, name, "query", FLOATS)
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        check_dtype(tensor, name, what, (query.dtype,))
        text = f"{what} must have 3 dimensions, got {tensor.dim()}"
        check(tensor.dim() == 3, name, text)
    check_shape(key, name, "key", tuple(query.shape))
    tokens, heads = value.shape[:2]
    same = query.shape[0] == tokens
    check(same, name, f"query has {query.shape[0]} tokens, value {tokens}")
    fits = key.shape[1] > 0 and heads % key.shape[1] == 0
    check(
        fits, name, f"{heads} heads of value are no multiple of {key.shape[1]} of key"
    )
