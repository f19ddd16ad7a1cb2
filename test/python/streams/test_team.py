"""Which threads help a call: PyTorch's OpenMP team, or the runtime's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

from anabranch import _C

# Products of many tiles, and one that PyTorch computes in the middle.
SETUP = """
    import ctypes, json, os, sys, threading
    import numpy as np
    import torch
    import anabranch

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    a, b = torch.randn(256, 256), torch.randn(256, 256)

    def model(a, b):
        return torch.relu(a @ b) @ b

    def with_fallback(a, b):
        square = torch.relu(a @ b)
        return torch.linalg.qr(square).R @ b

    def compiled(function=model):
        return torch.compile(function, backend="anabranch")

    # NumPy compares: in the child of a fork PyTorch's operators would wait for
    # threads that are not there.
    results = {each: each(a, b) for each in (model, with_fallback)}

    def right(run, function=model):
        wanted = results[function].numpy()
        return all(np.allclose(run(a, b).numpy(), wanted, rtol=1e-3, atol=1e-2)
                   for _ in range(20))

    def helpers(run):
        "Whose threads did pieces. On a busy machine the caller may do all of a call."
        for _ in range(50):
            with anabranch.profile() as trace:
                for _ in range(5):
                    run(a, b)
            trace.save("trace.json")
            events = json.load(open("trace.json"))["traceEvents"]
            names = {event["args"].get("name") for event in events if event["ph"] == "M"}
            found = names & {"OpenMP-1", "anabranch-1"}
            if found:
                break
        return sorted(name.split("-")[0] for name in found)

    def say(**facts):
        print(json.dumps(facts))
        sys.stdout.flush()
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script in a process of its own, with two threads for each call, and
    returns what it said."""

    def run(script: str, setup: str = SETUP, **environment: str) -> dict:
        usual = {"OMP_NUM_THREADS": "2", "ANABRANCH_EXECUTION": "shared"}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(setup) + textwrap.dedent(script)],
            cwd=tmp_path,
            check=False,
            env={**os.environ, **usual, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        facts: dict = {}
        for line in done.stdout.splitlines():
            facts |= json.loads(line)
        return facts

    return run


@pytest.mark.parametrize(
    ("environment", "helpers"),
    [
        ({}, ["OpenMP"]),
        ({"ANABRANCH_TEAM": "own"}, ["anabranch"]),
        ({"ANABRANCH_NUM_THREADS": "3"}, ["anabranch"]),
        ({"ANABRANCH_PIN": "cores"}, ["anabranch"]),
        ({"OMP_NUM_THREADS": "1"}, []),
    ],
)
def test_who_helps(run, environment, helpers):
    script = "run = compiled(); say(right=right(run), helpers=helpers(run))"
    assert run(script, **environment) == {"right": True, "helpers": helpers}


def test_the_bits_do_not_depend_on_the_team(run):
    script = """
        run = compiled()
        results = [run(a, b).numpy().tobytes() for _ in range(10)]
        say(same=len(set(results)), bits=hash(results[0]))
    """
    environments = ({}, {"ANABRANCH_TEAM": "own"}, {"OMP_NUM_THREADS": "1"})
    said = [run(script, PYTHONHASHSEED="0", **each) for each in environments]
    assert said[0]["same"] == 1
    assert said[0] == said[1] == said[2]


def test_a_region_ends_before_an_operator_of_pytorch(run):
    """Inside of a region PyTorch would use one thread."""
    script = """
        library = torch.library.Library("team", "DEF")
        library.define("threads(Tensor x) -> Tensor")
        seen, openmp = [], ctypes.CDLL(None)

        def threads(x):
            seen.append(openmp.omp_in_parallel())
            return torch.softmax(x, -1)
        library.impl("threads", threads, "CPU")
        library._register_fake("threads", lambda x: torch.empty_like(x))

        def through(a, b):
            return torch.ops.team.threads(a @ b) @ b

        results[through] = through(a, b)
        run = compiled(through)
        say(right=right(run, through), helpers=helpers(run), inside=sorted(set(seen)))
    """
    assert run(script) == {"right": True, "helpers": ["OpenMP"], "inside": [0]}


def test_the_number_of_threads_changes_between_calls(run):
    script = """
        run = compiled()
        say(before=right(run), two=helpers(run))
        torch.set_num_threads(1)
        say(alone=right(run), one=helpers(run))
        torch.set_num_threads(2)
        say(after=right(run), again=helpers(run))
    """
    assert run(script, OMP_NUM_THREADS="") == {
        "before": True,
        "two": ["OpenMP"],
        "alone": True,
        "one": [],
        "after": True,
        "again": ["OpenMP"],
    }


def test_the_child_of_a_fork_uses_threads_of_its_own(run):
    """OpenMP has none of its threads there, and would wait for them for ever."""
    script = """
        run = compiled()
        say(parent=right(run))
        child = os.fork()
        if child == 0:
            say(child=right(run), helpers=helpers(run))
            os._exit(0)
        os.waitpid(child, 0)
        say(later=right(run))
    """
    assert run(script) == {
        "parent": True,
        "child": True,
        "helpers": ["anabranch"],
        "later": True,
    }


def test_a_child_forked_before_the_import_uses_threads_of_its_own(run):
    """The parent's operators have made a team, and only the child has Anabranch."""
    script = """
        torch.softmax(torch.randn(1000, 1000), -1)
        child = os.fork()
        if child == 0:
            run = compiled()
            say(child=right(run), helpers=helpers(run))
            os._exit(0)
        os.waitpid(child, 0)
    """
    setup = SETUP.replace("    import anabranch\n", "").replace(
        "def helpers(run):", "def helpers(run):\n        import anabranch"
    )
    assert run(script, setup=setup)["helpers"] == ["anabranch"]


def test_a_child_of_a_parent_without_pytorch_has_a_team(run):
    """Such as a worker of a server that forks before it loads a model."""
    script = """
        import os, sys
        child = os.fork()
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    run_it = "run = compiled(); say(right=right(run), helpers=helpers(run))"
    whole = textwrap.dedent(script) + textwrap.dedent(SETUP) + run_it
    assert run(whole, setup="") == {"right": True, "helpers": ["OpenMP"]}


def test_threads_and_eager_operators_beside_each_other(run):
    script = """
        run, other = compiled(), compiled(with_fallback)
        right(run), right(other, with_fallback)
        found = []

        def call(number):
            for _ in range(3):
                torch.softmax(torch.randn(500, 500), -1)
                found.append(right(run) if number % 2 else right(other, with_fallback))

        threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        say(right=all(found), calls=len(found))
    """
    assert run(script, ANABRANCH_EXECUTION="") == {"right": True, "calls": 12}


def test_later_searches_for_the_team_cost_nothing() -> None:
    # Each call of a loaded package asks for it.
    def seconds() -> float:
        begin = time.thread_time()
        for _ in range(100):
            _C.use_torch()
        return (time.thread_time() - begin) / 100

    assert min(seconds() for _ in range(20)) < 3e-6
