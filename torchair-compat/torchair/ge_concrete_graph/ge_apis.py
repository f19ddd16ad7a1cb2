"""The older name of torchair.ge's nodes. It also has a function for each IR operator
that this host computes, such as `ge_apis.Add(x1, x2)`."""

from typing import Any as _Any

from .._impl.ge.definitions import UnknownOperator as _UnknownOperator
from .._impl.ge.nodes import by_name as _by_name
from ..ge import Cast, Clone, Const, custom_op

__all__ = ["Cast", "Clone", "Const", "custom_op"]


def __getattr__(name: str) -> _Any:
    try:
        return _by_name(name)
    except _UnknownOperator as error:
        raise AttributeError(str(error)) from None
