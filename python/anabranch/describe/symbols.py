"""Spells symbolic integers as the graph description does: as an EXPR, which is a
number, a symbol's name, or a list of a function and its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.symbol import SymT, symbol_is_type

Expr = int | str | list[Any] | dict[str, float]

# The reason in messages to users, where a size depends on data.
DATA_DEPENDENT = "a size depends on the values of a tensor"


class Unsupported(Exception):
    """The graph, or a part of it, has no description, so PyTorch runs it. The message
    is the reason."""


def integer(value: Any) -> Expr:
    """The EXPR of an int, a SymInt or a sympy expression."""
    if isinstance(value, int):
        return value
    if isinstance(value, torch.SymInt):
        value = _guarded(value)
    return _expr(value)


def _guarded(value: torch.SymInt) -> sympy.Expr:
    """The expression, with zero or one for each part of which the guards leave nothing
    else: a trace broadcasts `s // 3` where it is one. PyTorch puts numbers for symbols,
    not for expressions. Adds no guard."""
    expr, shape_env = value.node.expr, value.node.shape_env
    if expr.is_Symbol or expr.is_Integer:
        return expr
    parts = {expr, *expr.atoms(sympy.Function)}
    known = {part: _zero_or_one(part, shape_env) for part in parts}
    return expr.xreplace({part: n for part, n in known.items() if n is not None})


def _zero_or_one(expr: sympy.Expr, shape_env: Any) -> sympy.Integer | None:
    """The number, if all sizes that the guards allow make the expression zero, or one."""
    size = shape_env.create_symintnode(expr, hint=None)
    numbers = (sympy.S.Zero, sympy.S.One)
    return next((n for n in numbers if statically_known_true(size == int(n))), None)


def has_hint(number: Any) -> bool:
    """Whether the call that was traced tells the number. It does not if data decide it."""
    return not isinstance(number, torch.SymInt) or number.node.has_hint()


def hint(number: Any) -> int:
    """The number in the call that was traced."""
    return int(number.node.hint) if isinstance(number, torch.SymInt) else int(number)


def numbers_of(value: Any, layout: bool = False) -> Iterator[torch.SymInt]:
    """The symbolic integers in the sizes of a value or of a list of them; with `layout`
    those in its strides and its offset too."""
    if isinstance(value, torch.SymInt):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from numbers_of(item, layout)
    elif isinstance(value, torch.Tensor):
        places = (*value.stride(), value.storage_offset()) if layout else ()
        for number in (*value.shape, *places):
            if isinstance(number, torch.SymInt):
                yield number


def is_number(value: Any) -> bool:
    """Whether a value is a number that a description can compute; truth values are not."""
    numbers = int | float | torch.SymInt | torch.SymFloat
    return isinstance(value, numbers) and not isinstance(value, bool)


def number(value: Any) -> dict[str, Any]:
    """The spelling of a numeric argument, which may be computed from sizes."""
    if isinstance(value, float):
        # JSON has one kind of number, so a float is marked: 2.0 must not become 2.
        return {"float": value if math.isfinite(value) else _spell(value)}
    if not isinstance(value, torch.SymFloat):
        return {"expr": integer(value)}
    expr = value.node.expr
    return {"expr": _expr(expr)}


def word(value: Any) -> Expr:
    """The EXPR of the word that stands for a number among the inputs of a region: the
    integer, zero or one for a truth value that the run decides, or a float's bits."""
    if isinstance(value, torch.SymFloat | torch.SymBool):
        expr = value.node.expr
        if isinstance(expr, sympy.Eq) and expr.args[0].is_Symbol and expr.args[1] == 1:
            return expr.args[0].name
        if expr.is_Symbol and _is_run_float(expr):
            return expr.name
        raise Unsupported(f"a region that gets the number {expr}")
    return integer(value)


def _is_run_float(symbol: sympy.Symbol) -> bool:
    """Whether the symbol is a float that the run decides."""
    return symbol_is_type(symbol, SymT.UNBACKED_FLOAT)


def truth(value: bool | torch.SymBool) -> Expr:
    """The EXPR that is one where a relation of sizes holds, else zero."""
    return int(value) if isinstance(value, bool) else _truth(value.node.expr)


def _truth(value: sympy.Basic) -> Expr:
    if value in (sympy.true, sympy.false):
        return int(bool(value))
    if isinstance(value, sympy.Not):
        return _not(_truth(value.args[0]))
    if isinstance(value, sympy.And):
        return _chain_of("mul", list(map(_truth, value.args)))
    if isinstance(value, sympy.Or):
        return ["min", 1, _chain_of("add", list(map(_truth, value.args)))]
    if not isinstance(value, sympy.core.relational.Relational):
        raise Unsupported(f"the condition {value} is no relation of sizes")
    difference = value.args[0] - value.args[1]
    if not difference.is_integer:
        return _comparison(type(value), *map(_expr, value.args))
    if isinstance(value, sympy.Ne):
        return _is_positive(sympy.Max(difference, -difference))
    if isinstance(value, sympy.Eq):
        return _not(_is_positive(sympy.Max(difference, -difference)))
    positive = {
        sympy.StrictGreaterThan: difference,
        sympy.GreaterThan: difference + 1,
        sympy.StrictLessThan: -difference,
        sympy.LessThan: 1 - difference,
    }
    return _is_positive(positive[type(value)])


def _comparison(kind: type, left: Expr, right: Expr) -> Expr:
    """A relation of floats, which holds for no NaN unless it asks for a difference."""
    if kind is sympy.Ne:
        return _not(["eq", left, right])
    if kind in (sympy.StrictGreaterThan, sympy.GreaterThan):
        left, right = right, left
    less = kind in (sympy.StrictGreaterThan, sympy.StrictLessThan)
    return ["eq" if kind is sympy.Eq else "lt" if less else "le", left, right]


def _is_positive(value: sympy.Expr) -> Expr:
    return ["min", 1, ["max", 0, _expr(value)]]


def _not(value: Expr) -> Expr:
    return ["add", 1, ["mul", -1, value]]


def same(left: Any, right: Any) -> bool:
    """Whether two sizes are equal for all values of their symbols, as far as algebra
    can tell. Adds no guard."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return sympy.expand(_sympy(left) - _sympy(right)) == 0


def where_not_empty(value: Any) -> sympy.Expr:
    """A stride in a tensor without empty dimensions. PyTorch computes strides from
    max(1, size), and max goes away where no size is zero."""

    def is_size(expr: sympy.Expr) -> bool:
        return type(expr).__name__ == "Max" and sympy.S.One in expr.args

    def size(expr: sympy.Expr) -> sympy.Expr:
        return expr.func(*(part for part in expr.args if part != 1))

    return sympy.expand(_sympy(value).replace(is_size, size))


def _spell(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def _sympy(value: Any) -> sympy.Expr:
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)


def names(expr: Expr) -> set[str]:
    """The symbols in an EXPR."""
    if isinstance(expr, str):
        return {expr}
    if isinstance(expr, list):
        return set().union(*(names(part) for part in expr[1:]))
    return set()


# Functions of one number, by the name of their sympy class.
_UNARY = {
    "ToFloat": "float",
    "FloorToInt": "floor",
    "CeilToInt": "ceil",
    "TruncToInt": "trunc",
}

# Functions of two or more numbers, by the name of their sympy class.
_FUNCTIONS = {
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "CeilDiv": "ceildiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Min": "min",
    "Max": "max",
    "IntTrueDiv": "truediv",
    "FloatTrueDiv": "truediv",
}


def _expr(value: sympy.Expr) -> Expr:
    if isinstance(value, sympy.Symbol):
        if value.is_integer:
            return value.name
        if not _is_run_float(value):
            raise Unsupported("a float that is given to the graph")
        return ["bits", value.name]
    if value.is_Integer:
        return int(value)
    if isinstance(value, sympy.Add):
        return _chain("add", value.args)
    if isinstance(value, sympy.Mul):
        return _chain("mul", value.args)
    if isinstance(value, sympy.Pow) or type(value).__name__ == "PowByNatural":
        base, exponent = value.args
        if not exponent.is_Integer or exponent < 0:
            raise Unsupported(f"the size expression {value} has an unknown exponent")
        return ["pow", _expr(base), int(exponent)]
    if value.is_Float:
        return {"float": float(value)}
    if isinstance(value, sympy.Piecewise):
        return _pieces(value.args)
    kind = type(value).__name__
    if unary := _UNARY.get(kind):
        return [unary, _expr(value.args[0])]
    if kind == "Identity":
        return _expr(value.args[0])
    if kind == "ModularIndexing":
        base, divisor, modulus = (_expr(part) for part in value.args)
        return ["mod", ["floordiv", base, divisor], modulus]
    if function := _FUNCTIONS.get(kind):
        return _chain(function, value.args)
    raise Unsupported(f"the size expression {value} is no plain arithmetic")


def _pieces(pieces: tuple[Any, ...]) -> Expr:
    """The value of the first piece whose condition holds; the last one's always does."""
    value, condition = pieces[0]
    if condition == sympy.true:
        return _expr(value)
    if len(pieces) == 1:
        raise Unsupported("a number that is not defined for all sizes")
    holds = _truth(condition)
    rest = ["mul", _not(holds), _pieces(pieces[1:])]
    return ["add", ["mul", holds, _expr(value)], rest]


def _chain(function: str, parts: tuple[sympy.Expr, ...]) -> Expr:
    """Nests an associative function of two arguments over more of them, halves in
    halves: the compiler reads no text that nests deeply. Other functions have two."""
    return _chain_of(function, list(map(_expr, parts)))


def _chain_of(function: str, parts: list[Expr]) -> Expr:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    left, right = parts[:middle], parts[middle:]
    return [function, _chain_of(function, left), _chain_of(function, right)]
