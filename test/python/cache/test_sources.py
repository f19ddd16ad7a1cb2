"""`Source` reads Dynamo's names: the value that each names, and its owner."""

from __future__ import annotations

import pytest

from anabranch.method_cache.source import Place, Source


def closing_over(free):
    def method(self, x, other):
        return free, x, other

    return method


METHOD = closing_over(1)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "L['self']._modules['fc'].training",
            Place(
                "L", [(True, "_modules"), (False, "fc"), (True, "training")], asks=""
            ),
        ),
        ("len(L['self'].parts)", Place("L", [(True, "parts")], "len")),
        ("G['FACTOR']", Place("G", [(False, "FACTOR")])),
        (
            "L['free']",
            Place(
                "F", [(True, "__closure__"), (False, 0), (True, "cell_contents")], ""
            ),
        ),
        ("L['x'].size()[0]", None),
        ("L['self']", None),
        ("type(L['self'].fc)", Place("L", [(True, "fc")], "type")),
        ("L['self", None),
    ],
)
def test_places(text, place) -> None:
    source = Source.parse(text, METHOD)
    assert source.place == place
    assert Source.read(source.spelled()) == source


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("L['x'].size()[0]", "x.size()[0]"),
        ("len(L['other']) + L['x']", "len(other) + x"),
        ("L['self'].scale", None),
        ("L['x'] + L['self'].scale", None),
        ("L['x'] * G['FACTOR']", "x * G['FACTOR']"),
        ("G['FACTOR']", "G['FACTOR']"),
    ],
)
def test_expressions_over_arguments(text, over) -> None:
    assert Source.parse(text, METHOD).over_arguments({"x", "other"}) == over


def test_values() -> None:
    source = Source.parse("len(L['x'])", METHOD)
    assert source.value(METHOD, {"x": [1, 2]}) == 2
