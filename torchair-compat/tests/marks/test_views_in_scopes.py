"""Chains of views inside of scopes, across their borders, and outside equal eager, whether
dumps show a chain as one view or not.
"""

from __future__ import annotations

import pytest
import torch

import torchair
from pictures import compiled

scope = torchair.scope
X = torch.randn(2, 3, 4)


def none(x):
    return (x + 1).transpose(0, 1).reshape(3, 8).t() * 2


def inside(x):
    with scope.super_kernel("s"):
        return (x + 1).transpose(0, 1).reshape(3, 8).t() * 2


def at_the_border(x):
    y = (x + 1).transpose(0, 1)
    with scope.super_kernel("s"):
        y = y.reshape(3, 8)
    return y.t() * 2


def nested(x):
    with scope.super_kernel("s"):
        y = (x + 1).transpose(0, 1)
        with scope.npu_stream_switch("1"):
            y = y.reshape(3, 8).t()
        return y * 2


def deeply_nested(x):
    with scope.npu_stream_switch("1"):
        y = (x + 1).transpose(0, 2)
        with scope.super_kernel("s"):
            y = y.transpose(0, 1)
            with scope.limit_core_num(1, 1):
                y = y.reshape(3, 8).t()
        return y + 1


def views_alone(x):
    with scope.super_kernel("s"):
        return x.transpose(0, 1).reshape(3, 8).t(), x.permute(2, 0, 1)


def streams(x):
    with scope.npu_stream_switch("1"):
        y = (x + 1).transpose(0, 1)
    with scope.npu_stream_switch("2"):
        return y.reshape(3, 8).t() * 2


def mixed(x):
    with scope.super_kernel("s"), scope.npu_stream_switch("1"):
        y = (x * 2).permute(2, 1, 0)
    z = y.reshape(4, 6)
    with scope.op_never_timeout(True):
        return z.t() + z.t().cos(), y.contiguous()


FUNCTIONS = (
    none,
    inside,
    at_the_border,
    nested,
    deeply_nested,
    views_alone,
    streams,
    mixed,
)


@pytest.mark.checklist("T062")
@pytest.mark.parametrize("optimises", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_views(config, function, optimises) -> None:
    config.experimental_config.enable_view_optimize = optimises
    run = compiled(function, config)
    for x in (X, X.transpose(0, 2).contiguous().transpose(0, 2)):
        torch.testing.assert_close(run(x), function(x))
