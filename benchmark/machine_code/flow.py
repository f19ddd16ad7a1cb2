"""The loops of a function of machine code: which instructions they run, and which of them
have no loop inside. A compiler may lay a part of a loop elsewhere, so a loop is not what
stands between a branch and its target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def _back_edges(follow: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """The edges to an instruction that the walk from the first one is still in. LLVM's
    loops have one entry, so the target of each is a loop's first instruction."""
    entered: set[int] = {0}
    inside: set[int] = {0}
    walk = [(0, iter(follow[0]))]
    while walk:
        at, rest = walk[-1]
        for after in rest:
            if after in inside:
                yield at, after
            elif after not in entered:
                entered.add(after)
                inside.add(after)
                walk.append((after, iter(follow[after])))
                break
        else:
            inside.remove(at)
            walk.pop()


def _body(first: int, last: int, before: Sequence[Sequence[int]]) -> set[int]:
    """What reaches the last instruction without the first one."""
    found, left = {first, last}, [last] if last != first else []
    while left:
        for one in before[left.pop()]:
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def innermost(follow: Sequence[Sequence[int]]) -> list[list[int]]:
    """The loops without a loop inside. `follow` has the instructions that may run after
    each one, by their places; 0 is where the function begins."""
    if not follow:
        return []
    before: list[list[int]] = [[] for _ in follow]
    for at, after in enumerate(follow):
        for one in after:
            before[one].append(at)
    bodies: dict[int, set[int]] = {}
    for last, first in _back_edges(follow):
        bodies.setdefault(first, set()).update(_body(first, last, before))
    return [
        sorted(body)
        for first, body in sorted(bodies.items())
        if not any(other in body for other in bodies if other != first)
    ]
