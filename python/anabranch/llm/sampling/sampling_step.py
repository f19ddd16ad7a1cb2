"""The graph that draws a token: penalty, temperature, top-k, top-p and min-p."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from .short_processors import SORTED, kept_by_top_p
from .warpers import Warpers

# A graph looks at this many words at least, so that few graphs serve all counts.
LEAST_CANDIDATES = 64
# Rounding may decide if another word is this near to the drawn one, relative to it.
NEAR = 1e-6
# The word of a row that the graph could not decide.
UNKNOWN = -1


@dataclasses.dataclass(frozen=True)
class Kind:
    """Which settings a graph has, and how many of the likeliest words it looks at; None:
    at all of them. The settings' values are its inputs."""

    penalised: bool
    by_count: bool
    by_chance: bool
    by_likeliest: bool
    candidates: int | None

    @classmethod
    def of(cls, warpers: Warpers, words: int) -> Kind:
        candidates = None
        if warpers.top_k is not None:
            # One more tells whether words as likely as the last one follow.
            least = max(LEAST_CANDIDATES, warpers.top_k + 1)
            candidates = 1 << (least - 1).bit_length()
        elif warpers.top_p is not None:
            candidates = SORTED
        return cls(
            warpers.penalty is not None,
            warpers.top_k is not None,
            warpers.top_p is not None,
            warpers.min_p is not None,
            None if candidates is None else min(candidates, words),
        )


def inputs_of(warpers: Warpers, words: int) -> tuple[torch.Tensor, ...]:
    """The settings' values as SamplingStep.compute takes them, from `penalty` on. A
    graph does not read those that its kind does not have."""
    excluded = None if warpers.top_p is None else 1 - warpers.top_p
    floats = (
        warpers.penalty or 1.0,
        warpers.temperature or 1.0,
        excluded or 0.0,
        warpers.min_p or 0.0,
    )
    penalty, temperature, excluded, min_p = (torch.tensor([x]) for x in floats)
    top_k = torch.tensor([min(warpers.top_k or words, words)])
    return penalty, temperature, top_k, excluded, min_p


class SamplingStep(nn.Module):
    """Draws the next word of each row."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind

    def extra_repr(self) -> str:
        """Text for the key of a program in the compile cache."""
        return str(self.kind)

    def compute(
        self,
        logits: torch.Tensor,
        numbers: torch.Tensor,
        seen: torch.Tensor,
        penalty: torch.Tensor,
        temperature: torch.Tensor,
        top_k: torch.Tensor,
        excluded: torch.Tensor,
        min_p: torch.Tensor,
    ) -> torch.Tensor:
        """The words that transformers' processors and torch.multinomial give: int64
        [rows]. UNKNOWN where rounding decides, too few words were looked at, or a logit
        is infinite or NaN.

        logits   [rows, words], of any float dtype
        numbers  of draws.uniform, float64 [rows, words]
        seen     the words of each row's prompt and answer, bool [rows, words]
        penalty, temperature, excluded, min_p  float32 [1]; `excluded` is 1 - top_p
        top_k    int64 [1], at most `words`
        """
        scores = logits.float()
        if self.kind.penalised:
            changed = torch.where(scores < 0, scores * penalty, scores / penalty)
            scores = torch.where(seen, changed, scores)
        scores = scores / temperature
        if self.kind.candidates is None:
            largest = scores.amax(-1, keepdim=True)
            chances = self._likely((scores - largest).exp(), min_p)
            word, is_clear = _drawn(chances, numbers)
            is_known = largest.isfinite()
        else:
            chances, words, is_known = self._candidates(scores, top_k, excluded)
            chances = self._likely(chances, min_p)
            place, is_clear = _drawn(chances, numbers.gather(1, words))
            word = words.gather(1, place)
        return torch.where(is_known & is_clear, word, UNKNOWN).squeeze(1)

    def _likely(self, chances: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
        """The chances after min-p. That of the likeliest word is 1."""
        if not self.kind.by_likeliest:
            return chances
        return torch.where(chances < min_p, 0.0, chances)

    def _candidates(
        self, scores: torch.Tensor, top_k: torch.Tensor, excluded: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The chances of the likeliest words after top-k and top-p, falling from 1, and
        these words [rows, candidates]; whether they are known [rows, 1]."""
        likeliest, words = scores.topk(self.kind.candidates)
        largest = likeliest[:, :1]
        is_known = largest.isfinite()
        chances = (likeliest - largest).exp()
        total = (scores - largest).exp()
        if self.kind.by_count:
            least = likeliest.gather(1, (top_k - 1).expand(len(scores), 1))
            chances = torch.where(likeliest >= least, chances, 0.0)
            total = chances
            is_known = is_known & self._ends(likeliest >= least, scores)
        if self.kind.by_chance:
            total = total.sum(-1, keepdim=True)
            is_kept, is_clear = kept_by_top_p(chances, total, excluded)
            chances = torch.where(is_kept, chances, 0.0)
            is_known = is_known & is_clear
            if not self.kind.by_count:
                is_known = is_known & self._ends(is_kept, scores)
        return chances, words, is_known

    def _ends(self, is_kept: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Whether no word after the candidates is kept as well."""
        if self.kind.candidates == scores.shape[1]:
            return torch.ones_like(is_kept[:, -1:])
        return ~is_kept[:, -1:]


def _drawn(
    chances: torch.Tensor, numbers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """draws.chosen of the same arguments, in float32: int64 [rows, 1]. Whether no
    rounding decides about it, [rows, 1]."""
    # u is rounded where it is small, and 1 - u where that is, so either logarithm keeps
    # its digits.
    near_zero, near_one = numbers.float(), (1 - numbers).float()
    exponentials = -torch.where(
        numbers < 0.5, torch.log1p(-near_zero), torch.log(near_one)
    )
    quotients = chances / exponentials
    largest = quotients.amax(-1, keepdim=True)
    near = (quotients >= largest * (1 - NEAR)).sum(-1, keepdim=True)
    return quotients.argmax(-1, keepdim=True), near == 1
