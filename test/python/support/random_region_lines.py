"""Writes the lines of random programs with branches, loops, masks, items and updates.

All values are whole numbers from -8 to 8, so every dtype computes them exactly and a
mask never hangs on how a sum is rounded."""

from __future__ import annotations

import dataclasses
import random

COLUMNS = 3

# Kinds of variables: a matrix with the rows of the argument, one whose number of rows
# the run decides, an integer, a float and a truth value of the data.
DENSE, PICKED, INT, FLOAT, BOOL = "dense", "picked", "int", "float", "bool"

DENSE_OF_TWO = (
    "({a} + {b}).clamp(-8, 8)",
    "torch.maximum({a}, -{b})",
    "torch.where({a} > {b}, {a} - 1, {b}).clamp(-8, 8)",
    "torch.cat([{a}, {b}])[: {a}.shape[0]]",
)
DENSE_OF_ONE = (
    "-{a}",
    "{a}.relu()",
    "{a}.flip(0)",
    "{a}.t().clone().t()",
    "({a} * 2).clamp(-8, 8)",
    "{a}.masked_fill({a} > 3, 1)",
    "({a} + ({a} > 0).sum(0)).clamp(-8, 8)",
)
PICKED_OF_DENSE = (
    "{a}[{a}[:, 0] > 0]",
    "{a}[({a}[:, 1] < 1).nonzero().squeeze(1)]",
    "torch.repeat_interleave({a}, ({a}[:, 0] > 0).long(), dim=0)",
    "torch.masked_select({a}, {a} > 2).unsqueeze(1) + torch.zeros_like({a}[:1].sum(0))",
    "({a} > 0).nonzero()[:, 1:].to({a}.dtype) + torch.zeros_like({a}[:1].sum(0))",
    "torch.unique({a}[:, 0]).unsqueeze(1) + torch.zeros_like({a}[:1].sum(0))",
    "torch.bincount({a}[:, 2].abs().long()).clamp(max=8)[:, None] * {a}.sum(0).sign()",
)
PICKED_OF_PICKED = (
    "({a} * 2 - 1).clamp(-8, 8)",
    "{a}[{a}[:, 1] > 0]",
    "torch.cat([{a}, -{a}])",
    "{a}.relu()",
    "({a} + {a}.sum(0)).clamp(-8, 8)",
)
DENSE_OF_PICKED = (
    "({b} + {a}.sum(0)).clamp(-8, 8)",
    "({b} + {a}.shape[0]).clamp(-8, 8)",
    "({b} - {a}.relu().sum()).clamp(-8, 8)",
)
INT_OF_DENSE = (
    "({a} > 0).sum().item()",
    "{a}.long().sum().item()",
    "torch.unique({a}).shape[0]",
)
DENSE_OF_INT = (
    "({b} + {a}).clamp(-8, 8)",
    "({b} * {a} + torch.full((3,), {a}, dtype={b}.dtype)).clamp(-8, 8)",
    "({b} + min({a}, 4)).clamp(-8, 8)",
)
FLOAT_OF_DENSE = ("{a}.sum().item()", "{a}.float().abs().sum().item()")
DENSE_OF_FLOAT = (
    "({b} * {a}).clamp(-8, 8)",
    "({b} + ({a} * 2 + 1)).clamp(-8, 8)",
)
BOOL_OF_DENSE = ("({a}.sum() > 0).item()",)
PREDICATES = ("{a}.sum() > 0", "{a}.shape[0] > 3", "({a} > 1).any()")
UPDATES = (
    "{a}[1:] += 1",
    "{a}[:, 0] = -2",
    "{a}[{a} > 2] = 0",
    "{a}[{a}[:, 0] > 1] = {a}[:1].sum(0)",
    "{a}.neg_()",
    "{a}[0:1].mul_(-1)",
    "torch.ops.random_regions.bump({a})",
    "torch.ops.random_regions.bump({a}[:, 1])",
)


@dataclasses.dataclass
class Names:
    """The variables of a function, by their kinds."""

    of: dict[str, list[str]]

    def kinds(self) -> list[str]:
        return [kind for kind, names in self.of.items() if names]


class Writer:
    """Writes functions. `depth` limits regions within regions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counter = 0
        self.regions: list[str] = []  # functions whose calls are regions

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def body(self, names: Names, count: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines += self.line(names, depth)
        return lines

    def line(self, names: Names, depth: int) -> list[str]:
        writers = [self.compute] * 4 + [self.update]
        if depth:
            writers += [self.branch, self.loop, self.scan, self.region]
        return self.rng.choice(writers)(names, depth)

    def pick(self, names: Names, kind: str) -> str:
        return self.rng.choice(names.of[kind])

    def define(self, names: Names, kind: str, text: str, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        names.of.setdefault(kind, []).append(name)
        return f"{name} = {text}"

    def compute(self, names: Names, depth: int) -> list[str]:
        rows = [
            (DENSE, DENSE, DENSE_OF_ONE + DENSE_OF_TWO),
            (DENSE, PICKED, PICKED_OF_DENSE),
            (DENSE, INT, INT_OF_DENSE),
            (DENSE, FLOAT, FLOAT_OF_DENSE),
            (DENSE, BOOL, BOOL_OF_DENSE),
            (PICKED, PICKED, PICKED_OF_PICKED),
            (PICKED, DENSE, DENSE_OF_PICKED),
            (INT, DENSE, DENSE_OF_INT),
            (FLOAT, DENSE, DENSE_OF_FLOAT),
        ]
        source, result, texts = self.rng.choice(
            [row for row in rows if row[0] in names.kinds()]
        )
        text = self.rng.choice(texts).format(
            a=self.pick(names, source), b=self.pick(names, DENSE)
        )
        return [self.define(names, result, text)]

    def update(self, names: Names, depth: int) -> list[str]:
        """Writes into a copy, or into an argument."""
        lines = []
        if self.rng.random() < 0.8:
            source = self.pick(names, DENSE)
            lines.append(self.define(names, DENSE, f"{source}.clone()"))
            target = names.of[DENSE][-1]
        else:
            target = names.of[DENSE][0]
        lines.append(self.rng.choice(UPDATES).format(a=target))
        lines.append(f"{target}.clamp_(-8, 8)")
        return lines

    def predicate(self, names: Names) -> str:
        kinds = [kind for kind in (INT, BOOL) if kind in names.kinds()]
        kind = self.rng.choice([DENSE, *kinds])
        if kind == INT:
            return f"{self.pick(names, INT)} > {self.rng.randint(0, 4)}"
        if kind == BOOL:
            return self.pick(names, BOOL)
        return self.rng.choice(PREDICATES).format(a=self.pick(names, DENSE))

    def inner(self, parameters: list[tuple[str, str]], depth: int) -> Names:
        names = Names({})
        for name, kind in parameters:
            names.of.setdefault(kind, []).append(name)
        return names

    def operands(self, names: Names) -> list[tuple[str, str]]:
        """Names and kinds of what a region gets."""
        found = [(self.pick(names, DENSE), DENSE)]
        if PICKED in names.kinds() and self.rng.random() < 0.4:
            found.append((self.pick(names, PICKED), PICKED))
        return found

    def function(
        self, name: str, kinds: list[str], result: str, depth: int
    ) -> list[str]:
        """A function of values of these kinds that returns one of the kind `result`."""
        parameters = [(f"{name}_{i}", kind) for i, kind in enumerate(kinds)]
        names = self.inner(parameters, depth)
        lines = self.body(names, self.rng.randint(1, 2), depth - 1)
        if result not in names.kinds():
            lines += [
                self.define(
                    names,
                    result,
                    self.rng.choice(PICKED_OF_DENSE).format(a=self.pick(names, DENSE)),
                )
            ]
        own = [n for n in names.of[result] if n not in dict(parameters)]
        value = own[-1] if own else self.pick(names, result)
        head = f"def {name}({', '.join(n for n, _ in parameters)}):"
        return [head, *(f"    {line}" for line in lines), f"    return {value}.clone()"]

    def branch(self, names: Names, depth: int) -> list[str]:
        operands = self.operands(names)
        kinds = [kind for _, kind in operands]
        result = PICKED if self.rng.random() < 0.3 else DENSE
        yes, no = self.fresh("yes"), self.fresh("no")
        lines = self.function(yes, kinds, result, depth)
        lines += self.function(no, kinds, result, depth)
        given = ", ".join(name for name, _ in operands)
        call = f"torch.cond({self.predicate(names)}, {yes}, {no}, ({given},))"
        return [*lines, self.define(names, result, call)]

    def loop(self, names: Names, depth: int) -> list[str]:
        body, test = self.fresh("body"), self.fresh("test")
        if self.rng.random() < 0.4:
            lines = self.partial_update(body)
        else:
            lines = self.function(body, [DENSE], DENSE, depth)
        limit = str(self.rng.randint(0, 3))
        if INT in names.kinds() and self.rng.random() < 0.5:
            limit = f"min({self.pick(names, INT)}, 3)"
        bound = self.fresh("limit")
        counts = self.rng.random() < 0.5
        first = "0" if counts else "torch.tensor(0)"
        lines += [
            f"{bound} = {limit}",
            f"def {test}(i, c):",
            f"    return i < {bound}",
            f"def {body}_step(i, c):",
            f"    return i + 1, {body}(c)",
        ]
        call = (
            f"while_loop({test}, {body}_step, ({first}, {self.pick(names, DENSE)}))[1]"
        )
        return [*lines, self.define(names, DENSE, call)]

    def partial_update(self, name: str) -> list[str]:
        """A function that changes parts of its argument, which a loop may do in place."""
        value = self.fresh("v")
        updates = self.rng.sample(UPDATES, self.rng.randint(1, 2))
        lines = [f"{value} = c.clone()", *(line.format(a=value) for line in updates)]
        return [
            f"def {name}(c):",
            *(f"    {line}" for line in lines),
            f"    return {value}",
        ]

    def scan(self, names: Names, depth: int) -> list[str]:
        step = self.fresh("step")
        source = self.pick(names, DENSE)
        lines = [
            f"def {step}(c, row):",
            "    chosen = row[row > 0].sum()",
            "    return (c + row + chosen).clamp(-8, 8), (c - row).clamp(-8, 8)",
        ]
        call = f"scan({step}, {source}[:1].sum(0), {source})[1]"
        return [*lines, self.define(names, DENSE, call)]

    def region(self, names: Names, depth: int) -> list[str]:
        name = self.fresh("region")
        lines = self.function(name, [DENSE], DENSE, 1)
        self.regions += ["@torch.compiler.nested_compile_region", *lines]
        return [
            self.define(names, DENSE, f"{name}({self.pick(names, DENSE)})")
            for _ in range(2)
        ]


def write(seed: int) -> str:
    """The text of a function `program(x, y)`."""
    rng = random.Random(seed)
    writer = Writer(rng)
    names = Names({DENSE: ["x", "y"]})
    lines = writer.body(names, rng.randint(2, 6), depth=2)
    results = [
        rng.choice(names.of[kind])
        for kind in names.kinds()
        if kind in (DENSE, PICKED) or rng.random() < 0.5
    ]
    results.append(names.of[DENSE][-1])
    body = [*lines, f"return {', '.join(results)}"]
    return "\n".join(
        [*writer.regions, "def program(x, y):", *(f"    {line}" for line in body), ""]
    )
