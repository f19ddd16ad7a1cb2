"""`anabranch report`: the figures that the page gets, and the page in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import MACHINE, Towers, make_trace, write_trace

from anabranch import cli
from anabranch.trace.critical_path import measure
from anabranch.trace.page import page_data, write_report
from anabranch.trace.trace_file import TraceError, read_trace

HERE = f"{__file__}:1"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "towers.json"
    return write_trace(path, Towers(4, 6), 12, HERE)


# Reading and measuring a trace


def test_reads_back_what_was_written(trace: Path) -> None:
    data = read_trace(trace)
    assert len(data.calls) == 12
    assert all(len(call.executions) == 26 for call in data.calls.values())
    facts = page_data(data, "towers")
    assert len(facts["slices"]["call"]) == len(facts["pieces"]["slice"]) == 12 * 26
    assert facts["machine"] == MACHINE
    assert {about["work"] for about in facts["about"]} == {
        *("product", "attention", "reduction", "lookup", "pointwise")
    }
    assert facts["about"][0]["code"] == Path(__file__).read_text().splitlines()[0]


def measured(
    tmp_path: Path, slices: list[tuple], streams: list[int], events: list[list[int]]
) -> Any:
    """Measures one call. A slice is (command, worker, begin, end)."""
    towers = Towers(max(streams) + 1, 1)
    towers.stream_of, towers.events = streams, events
    towers.commands = [("relu", "k", 1.0, 1.0)] * len(streams)
    towers.run = lambda *_: slices  # type: ignore[method-assign]
    path = tmp_path / "one.json"
    path.write_text(json.dumps(make_trace(towers, 1, HERE)))
    data = read_trace(path)
    return measure(data.calls[0], data.programs[0])


def test_overlap_and_busy_time(tmp_path: Path) -> None:
    # Two streams side by side from 2 to 5, alone before and after.
    found = measured(tmp_path, [(0, 0, 0, 5), (1, 1, 2, 9)], [0, 1], [])
    assert (found.active, found.overlapped, found.busy) == (9000, 3000, 12000)
    assert found.bound == 7000


def test_the_critical_path_follows_events_and_workers(tmp_path: Path) -> None:
    # 0 and 1 begin together on two streams. 2 waits for 1's event, although its own
    # stream's 0 was done; 3 is free to run but its worker is busy with 2.
    slices = [(0, 0, 0, 3), (1, 1, 0, 6), (2, 0, 7, 9), (3, 0, 9, 12)]
    found = measured(tmp_path, slices, [0, 1, 0, 2], [[1, 2]])
    steps = [(step.command, step.reason) for step in found.path]
    assert steps == [(1, ""), (2, "event"), (3, "worker")]
    assert found.bound == 8000  # 1 then 2


def test_the_path_leaves_a_command_that_others_finish(tmp_path: Path) -> None:
    # Worker 0 helps with 0 until 4 and goes on to 1, while worker 1 ends 0 at 6.
    slices = [(0, 0, 1, 4), (0, 1, 1, 6), (1, 0, 5, 9)]
    found = measured(tmp_path, slices, [0, 1], [])
    assert [(step.command, step.reason) for step in found.path] == [
        (0, ""),
        (1, "worker"),
    ]
    assert found.path[1].free == 4000
    assert found.on_path == 3000 + 4000


def super_trace(tmp_path: Path) -> Path:
    """A trace of one super kernel: tiles of two launches, on two workers."""
    towers = Towers(1, 1)
    towers.stream_of, towers.events = [0, 0, 0], []
    towers.commands = [("", "layer_0", 2.0, 2.0)] + [("relu", "k", 1.0, 1.0)] * 2
    towers.run = lambda *_: [(0, 0, 0.0, 9.0)]  # type: ignore[method-assign]
    text = make_trace(towers, 1, HERE)
    (stream,) = (e for e in text["traceEvents"] if e.get("cat") == "stream")
    (worker,) = (e for e in text["traceEvents"] if e.get("cat") == "worker")
    stream["args"]["kind"] = "super"
    text["traceEvents"].remove(worker)
    thread = worker["tid"]
    for command, tid, begin, time in (
        *((1, thread, 0, 3), (1, thread + 1, 0, 4)),
        *((2, thread, 3, 6), (2, thread + 1, 4, 2)),
    ):
        args = {**worker["args"], "command": command, "kind": "launch", "tiles": 2}
        args |= {"of tiles": 4, "FLOP": 0.5, "super kernel": "layer_0", "part of": 0}
        args["operators"] = "relu"
        piece = {**worker, "name": f"k{command}", "tid": tid, "args": args}
        text["traceEvents"].append(piece | {"ts": worker["ts"] + begin, "dur": time})
    path = tmp_path / "super.json"
    path.write_text(json.dumps(text))
    return path


def test_a_super_kernel_is_one_command_of_many_launches(tmp_path: Path) -> None:
    data = read_trace(super_trace(tmp_path))
    (call,) = data.calls.values()
    assert {c: e.part_of for c, e in call.executions.items()} == {0: None, 1: 0, 2: 0}
    launch = call.executions[1]
    assert (launch.about["tiles"], launch.about["flop"]) == (4, 1.0)
    assert launch.about["super"] == "layer_0"
    assert launch.end - launch.begin == 4000
    result = measure(call, data.programs[0])
    assert [step.command for step in result.path] == [0]
    assert result.busy == 15_000
    assert (result.active, result.overlapped) == (9000, 0)
    facts = page_data(data, "super")
    assert [about["work"] for about in facts["about"]] == [
        *("super kernel", "pointwise", "pointwise")
    ]
    # The super kernel has no pieces of its own: the page shows those of its launches.
    assert sorted(facts["pieces"]["slice"]) == [1, 1, 2, 2]


def test_one_stream_is_a_chain(tmp_path: Path) -> None:
    slices = [(0, 0, 0, 3), (1, 1, 4, 6), (2, 0, 6, 9)]
    found = measured(tmp_path, slices, [0, 0, 0], [])
    assert [step.command for step in found.path] == [0, 1, 2]
    assert found.overlapped == 0
    assert found.bound == 8000


# Refusals


def refuse(path: Path, capsys: pytest.CaptureFixture) -> str:
    assert cli.main(["report", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("anabranch: ")
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is no trace of Anabranch"),
        ('{"traceEvents": []}', "is no trace of Anabranch"),
        ('{"anabranch": {"version": 99}}', "version 99"),
        ('{"anabranch": {"version": 1}}', "is damaged"),
    ],
)
def test_what_is_no_trace_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert message in refuse(path, capsys)


def test_a_missing_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert "No such file" in refuse(tmp_path / "none.json", capsys)


def test_the_page_does_not_replace_the_trace(trace: Path) -> None:
    with pytest.raises(ValueError, match="is the trace itself"):
        write_report(trace, trace)


def test_any_missing_part_is_said_and_no_crash(tmp_path: Path) -> None:
    """The reader refuses a trace without any one of its keys, or reads it whole."""
    whole = make_trace(Towers(2, 1), 1, HERE)

    def holders(value: Any) -> Iterator[tuple[Any, Any]]:
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                yield value, key
                yield from holders(value[key])

    path = tmp_path / "trace.json"
    refused = 0
    for place in range(len(list(holders(whole)))):
        text = json.loads(json.dumps(whole))
        holder, key = list(holders(text))[place]
        holder[key] = None
        path.write_text(json.dumps(text))
        try:
            page_data(read_trace(path), "x")
        except TraceError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 50


# The page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a report of a trace. An error or a request of the page fails the test."""
    problems: list[str] = []
    contexts = []

    def open_one(trace: Path, **options: Any) -> Any:
        target = write_report(trace, tmp_path / "report.html")
        context = browser.new_context(
            viewport={"width": 1440, "height": 1080}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: m.type == "error" and problems.append(m.text))
        page.on("request", lambda r: requested.append(r.url))
        page.goto(target.as_uri())
        return page

    requested: list[str] = []
    yield open_one
    for context in contexts:
        context.close()
    assert not problems
    others = [u for u in requested if not u.startswith(("data:", tmp_path.as_uri()))]
    assert not others


def test_the_page_stands_alone(trace: Path, tmp_path: Path) -> None:
    page = write_report(trace, tmp_path / "report.html").read_text()
    assert not re.search(
        r"""(?:src|href)=["'](?!data:)""", page.partition("<script")[0]
    )
    assert "default-src 'none'" in page
    assert "Mike Bostock" in page  # the library's licence


def test_words_of_a_trace_are_no_markup(open_page: Any, tmp_path: Path) -> None:
    towers = Towers(2, 1)
    towers.streams[1] = "</script><script>throw 1</script>"
    towers.commands[1] = ("<img src=x onerror=alert(1)>", "k<b>", 1.0, 1.0)
    page = open_page(write_trace(tmp_path / "a.json", towers, 2, "<i>.py:3"))
    assert "<img src=x" in page.inner_text("#kernels")
    assert page.locator("#kernels img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_draws(open_page: Any, trace: Path, theme: str) -> None:
    page = open_page(trace, color_scheme=theme)
    assert page.get_attribute("html", "data-theme") == theme
    assert page.locator("#kernels tbody tr").count() == 5
    assert page.locator(".tile").count() == 7
    assert "GFLOP/s" in page.inner_text("#machine")
    colours = page.evaluate(
        """() => {
          const canvas = document.getElementById("tracks");
          timeline.drawNow();
          const { data } = canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4)
            seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
          return seen.size;
        }"""
    )
    assert colours > 20
    other = "dark" if theme == "light" else "light"
    page.keyboard.press("t")
    assert page.get_attribute("html", "data-theme") == other


def test_the_mouse_zooms_moves_and_shows_the_line(open_page: Any, trace: Path) -> None:
    page = open_page(trace, reduced_motion="reduce")
    box = page.locator("#tracks").bounding_box()
    where = page.evaluate(
        """() => {
          const track = timeline.tracks[0];
          const row = timeline.layout.rows.find((r) => r.track === track);
          const i = timeline.inView(track);
          return [timeline.x((track.begin[i] + track.end[i]) / 2), row.y + 14];
        }"""
    )
    page.mouse.move(box["x"] + where[0], box["y"] + where[1])
    assert "test_report.py:1" in page.inner_text("#tooltip")
    span = "timeline.range()[1] - timeline.range()[0]"
    before = page.evaluate(span)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"{span} < {before} / 1.5")
    start = page.evaluate("timeline.range()[0]")
    page.mouse.down()
    page.mouse.move(box["x"] + where[0] + 200, box["y"] + where[1], steps=4)
    page.mouse.up()
    assert page.evaluate("timeline.range()[0]") < start
    page.locator("#kernels tbody tr").first.click()
    assert page.evaluate("timeline.look.highlight") == "k_linear_gelu"
    assert "k_linear_gelu" in page.inner_text("#selected")


def test_the_keyboard_is_enough(open_page: Any, trace: Path) -> None:
    page = open_page(trace, reduced_motion="reduce")
    chosen = "timeline.look.selected"
    page.focus("#tracks")
    page.keyboard.press("ArrowRight")
    first = page.evaluate(chosen)
    assert first >= 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate(chosen) == first + 1
    page.keyboard.press("ArrowDown")
    assert page.evaluate("timeline.look.track.title") == "tower 1"
    span = page.evaluate("timeline.range()[1] - timeline.range()[0]")
    page.keyboard.press("+")
    closer = page.evaluate("timeline.range()[1] - timeline.range()[0]")
    assert closer < span
    page.keyboard.press("Enter")
    assert page.evaluate("timeline.range()[1] - timeline.range()[0]") < closer
    page.keyboard.press("0")
    shown = page.evaluate("scope")
    page.keyboard.press("n")
    assert page.evaluate("scope") == shown + 1
    page.keyboard.press("c")
    path = page.evaluate("data.calls[scope].path.map((step) => step[0])")
    assert page.evaluate(chosen) == path[0]
    page.keyboard.press("Escape")
    assert page.evaluate(chosen) == -1
    page.keyboard.press("?")
    assert page.evaluate("at('keys').open")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("layer_norm")
    assert page.locator("#kernels tbody tr").count() == 1
    page.fill("#filter", "")
    page.focus("th [data-key=launches]")
    page.keyboard.press("Enter")
    counts = page.locator("#kernels tbody td:nth-child(2)").all_inner_texts()
    assert counts == sorted(counts, key=int, reverse=True)
    assert page.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
    page.keyboard.press("Enter")
    counts = page.locator("#kernels tbody td:nth-child(2)").all_inner_texts()
    assert counts == sorted(counts, key=int)
    page.focus("#tab-kernels")
    page.keyboard.press("ArrowRight")
    assert page.locator("#path tbody tr").count() == len(path)


def test_the_table_adds_up(open_page: Any, trace: Path) -> None:
    page = open_page(trace)
    page.select_option("#call", "-1")
    data = read_trace(trace)
    mine: dict[str, float] = {}
    for call in data.calls.values():
        for execution in call.executions.values():
            name = execution.about["name"]
            mine[name] = mine.get(name, 0) + execution.end - execution.begin
    rows = page.evaluate("kernels.rows.map((r) => [r.name, r.time, r.gflops, r.flop])")
    assert {name: time for name, time, *_ in rows} == mine
    for _, time, gflops, flop in rows:
        assert gflops is None if flop is None else gflops == pytest.approx(flop / time)


def test_an_empty_trace_has_a_page(open_page: Any, tmp_path: Path) -> None:
    text = make_trace(Towers(1, 1), 0, HERE)
    (tmp_path / "empty.json").write_text(json.dumps(text))
    page = open_page(tmp_path / "empty.json")
    assert "No call ran" in page.inner_text("#warning")


@pytest.mark.slow
def test_a_large_trace_stays_usable(open_page: Any, tmp_path: Path) -> None:
    """With 100,000 slices the page draws a frame within a few refreshes, zoomed in and out.
    The time does not grow with the trace."""
    towers = Towers(6, 8, workers=4)
    trace = write_trace(tmp_path / "large.json", towers, 1000, HERE)
    page = open_page(trace)
    assert page.evaluate("data.slices.call.length + data.pieces.slice.length") >= 1e5
    frame = """(all) => {
      timeline.show(...(all ? [0, lastMoment]
        : [data.calls[500].begin, data.calls[503].begin]), false);
      const times = [];
      for (let i = 0; i < 9; ++i) {
        const start = performance.now();
        timeline.drawNow();
        times.push(performance.now() - start);
      }
      return d3.median(times);
    }"""
    page.keyboard.press("f")
    page.select_option("#call", "-1")
    assert page.evaluate(frame, True) < 200
    assert page.evaluate(frame, False) < 200
