"""The norm and the rotation of latent attention, in float64."""

from __future__ import annotations

import torch


def rms(x, gamma):
    wide = x.double()
    root = (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return wide / root * gamma.double()


def rope(x, cos, sin):
    """Rotary embedding whose pairs are neighbouring elements."""
    left, right = x.double()[..., ::2], x.double()[..., 1::2]
    halves = torch.cat([left, right], -1) * cos
    return halves + torch.cat([-right, left], -1) * sin
