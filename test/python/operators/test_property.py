"""Compiled equals eager for random graphs over random inputs.

`make test` draws the same few graphs every time. ANABRANCH_PROPERTY=2000 draws
that many new ones; ANABRANCH_PROPERTY_SEED says which, and ANABRANCH_PROPERTY_CPU for
which processor they are compiled ("avx2"). With `pytest -s` each is printed before it
runs, so that the last one is what crashed.
"""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import other_cpu
import pytest
import torch
from checking import compiled
from hypothesis import HealthCheck, Phase, assume, note, settings
from hypothesis import strategies as st
from random_graphs import (
    DTYPES,
    LAYOUTS,
    SIZES,
    Input,
    Program,
    difference,
    shared_with,
    write_program,
)
from random_operators import OPERATORS
from torch import nn

from anabranch.packages import package

MANY = int(os.environ.get("ANABRANCH_PROPERTY", "0"))
SEED = int(os.environ.get("ANABRANCH_PROPERTY_SEED", "0"))
CPU = os.environ.get("ANABRANCH_PROPERTY_CPU", "host")
BUDGET = settings(
    max_examples=MANY or 60,
    derandomize=not MANY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
)

dims = st.integers(-1, 2)
plain_inputs = st.builds(
    Input,
    st.sampled_from(list(DTYPES)),
    st.lists(dims, max_size=4).map(tuple),
    st.sampled_from(LAYOUTS),
    st.booleans(),
)
steps = st.tuples(
    st.sampled_from(list(OPERATORS)),
    st.lists(st.integers(0, 40), min_size=6, max_size=6),
)


@st.composite
def programs(draw: Any) -> Program:
    inputs = draw(st.lists(plain_inputs, min_size=1, max_size=3))
    if draw(st.integers(0, 9)) == 9:
        layout = draw(st.sampled_from(LAYOUTS[:3]))
        inputs.append(Input(inputs[0].dtype, inputs[0].dims, layout, same_as=0))
    sizes = draw(st.tuples(*[st.sampled_from(SIZES)] * 3))
    body = draw(st.lists(steps, min_size=1, max_size=14))
    outputs = draw(st.lists(st.integers(0, 20), max_size=3))
    return write_program(inputs, sizes, body, outputs)


class Model(nn.Module):
    """A module that holds some of the function's arguments as parameters and buffers."""

    def __init__(self, function: Any, inputs: list[Input], values: list) -> None:
        super().__init__()
        self.function = function
        self.from_outside = [i for i, spec in enumerate(inputs) if not spec.state]
        for position, spec in enumerate(inputs):
            if spec.state:
                self.register_buffer(f"state{position}", values[position])

    def forward(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(self.from_outside, arguments))
        count = len(given) + len(self._buffers)
        return self.function(
            *(
                given[i] if i in given else getattr(self, f"state{i}")
                for i in range(count)
            )
        )


def models(program: Program, seed: int, sizes: Any) -> list[tuple[nn.Module, list]]:
    """The eager model, the reference in f64, and the model to compile. Each has arguments
    of its own."""
    found = []
    for reference in (False, True, False):
        values = program.arguments(seed, reference, sizes)
        model = Model(program.function(reference), program.inputs, values)
        found.append((model, values))
    return found


def problems(
    program: Program, run: Any, given: list, seed: int, sizes: Any
) -> list[str]:
    """The differences of a compiled call from eager. `given` has the arguments of the
    model that `run` compiles."""
    (eager, values), (wide, wides), _ = models(program, seed, sizes)
    outside = eager.from_outside
    results = [*eager(*(values[i] for i in outside)), *values]
    references = [*wide(*(wides[i] for i in outside)), *wides]
    actual = [*run(*(given[i] for i in outside)), *given]
    found = [
        f"result {number}: {text}"
        for number, (got, want, exact, bounds) in enumerate(
            zip(actual, results, references, program.bounds)
        )
        if (text := difference(got, want, exact, bounds))
    ]
    ours = shared_with(actual[: -len(given)], given)
    theirs = shared_with(results[: -len(values)], values)
    if ours != theirs:
        found.append(f"shares memory with the inputs {ours}, not {theirs}")
    return found


def compare(program: Program, compiler: Any, again: Any) -> list[str]:
    """The differences of two calls. The second one has other sizes, if it can."""
    model, given = models(program, 1, program.sizes)[2]
    run = compiler(model)
    found = problems(program, run, given, 1, program.sizes)
    if again and not found and not any(spec.state for spec in program.inputs):
        given = program.arguments(2, sizes=again)
        try:
            program.function()(*program.arguments(2, sizes=again))
        except (RuntimeError, IndexError, ValueError):
            return found
        found = [f"again: {x}" for x in problems(program, run, given, 2, again)]
    return found


def is_pytorchs(program: Program, dynamic: Any, again: Any) -> bool:
    """Whether PyTorch's tracing alone, without our compiler, differs from eager too."""
    torch._dynamo.reset()
    try:
        return bool(
            compare(
                program,
                lambda m: torch.compile(m, backend="aot_eager", dynamic=dynamic),
                again,
            )
        )
    except Exception:  # noqa: BLE001 - whatever it is, it is not ours
        return True


@pytest.fixture(scope="module", autouse=True)
def processor():
    with pytest.MonkeyPatch.context() as patch:
        if CPU != "host":
            # The cache has packages for this machine.
            patch.setenv("ANABRANCH_CACHE", "0")
            patch.setattr(package, "_compiler_options", other_cpu.options_for(CPU))
        yield


@pytest.mark.slow
@hypothesis.seed(SEED)
@BUDGET
@hypothesis.given(
    program=programs(),
    dynamic=st.sampled_from([False, True, None]),
    other=st.none() | st.tuples(*[st.sampled_from(SIZES[:12])] * 3),
    freeze=st.booleans(),
    threads=st.integers(1, 2),
)
@torch.no_grad()
def test_random_graphs(program, dynamic, other, freeze, threads):
    note(program.source)
    if MANY:
        print(program, dynamic, other, freeze, threads, program.source, flush=True)
    torch._dynamo.reset()
    options = {"freeze": freeze, "threads": threads}
    again = other if dynamic is not False else None
    try:
        found = compare(
            program,
            lambda m: compiled(m, dynamic=dynamic, options=options),
            again,
        )
    except Exception:
        assume(not is_pytorchs(program, dynamic, again))
        raise
    if found:
        assume(not is_pytorchs(program, dynamic, again))
    assert not found, "\n".join(found)
