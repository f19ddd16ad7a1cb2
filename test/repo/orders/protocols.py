"""The protocols of docs/design/runtime.md, "Memory orders", as programs of threads.

Each is the part of the sources in which threads meet, with few threads and few rounds. A
program takes its orders from the sources by the names of `sites`, so that a change there
changes the program. What the sources do not name, such as the work of a kernel, is a plain
access: the checker reports a race if no order protects it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

from sources import Site
from weak_memory import (
    Operation,
    Program,
    Value,
    await_,
    exchange,
    load,
    store,
    update,
)

Orders = Mapping[str, str]
Steps = Generator[Operation, Value, Value]


@dataclass(frozen=True)
class Protocol:
    """`spare` says which orders could be a step weaker, and why."""

    program: Callable[[Orders], Program]
    sites: dict[str, Site]
    spare: dict[str, str] = field(default_factory=dict)


POOL = "runtime/workers/WorkerPool.cpp"
OPEN, RESERVED = 8, 4


def _enter(orders: Orders, job: str) -> Steps:
    if (yield exchange("state", orders["reserve"], 0, RESERVED)) != 0:
        return
    yield store("job", job, orders["set job"])
    yield update("state", orders["open"], lambda state: state ^ (OPEN | RESERVED))
    yield update("state", orders["close"], lambda state: state ^ (OPEN | RESERVED))
    yield await_("state", orders["wait"], lambda state: state == RESERVED)


def _help(orders: Orders) -> Steps:
    """False if the worker finds no job or one that is over."""
    before = yield update("state", orders["come in"], lambda state: state + 1)
    if before & OPEN:
        job = yield load("job", orders["get job"])
        if not job or not (yield load(f"{job}.work")):
            return False
        yield store(f"{job}.result", 1)
    yield update("state", orders["go out"], lambda state: state - 1)
    return True


def place_of_the_pool(orders: Orders) -> Program:
    """The caller reads the results and ends its job once no worker is inside. The next
    caller takes the place, and a worker that comes in then sees the second job."""

    def first() -> Steps:
        yield store("1.work", 1)
        yield from _enter(orders, "1")
        yield load("1.result")
        yield store("1.work", 0)
        yield update("state", orders["free"], lambda state: state & ~RESERVED)

    def second() -> Steps:
        yield store("2.work", 1)
        yield from _enter(orders, "2")

    def worker() -> Steps:
        return (yield from _help(orders))

    places = ("1.work", "1.result", "2.work", "2.result")
    initial = {"state": 0, "job": "", **dict.fromkeys(places, 0)}
    threads = [first, second, worker]
    return Program(threads, initial, lambda ends: ends[2] is not False)


PLACE = Protocol(
    place_of_the_pool,
    {
        "reserve": Site(POOL, "compare_exchange_strong(free, reserved, ORDER)"),
        "set job": Site(POOL, ".job.store(&job, ORDER)"),
        "open": Site(POOL, ".state.fetch_xor(open | reserved, ORDER); return i"),
        "close": Site(POOL, "; state.fetch_xor(open | reserved, ORDER)"),
        "wait": Site(POOL, "state.load(ORDER) != reserved"),
        "free": Site(POOL, "state.fetch_and(~reserved, ORDER)"),
        "come in": Site(POOL, "state.fetch_add(1, ORDER)"),
        "get job": Site(POOL, "job.load(ORDER)"),
        "go out": Site(POOL, "state.fetch_sub(1, ORDER)"),
    },
    spare={
        "close -> acquire": "the opening has released the job",
        "close -> release": "the wait acquires",
        "free -> relaxed": "updates carry the opening's release on to the next caller",
    },
)

NEWS = "runtime/workers/News.h"


def parking(orders: Orders) -> Program:
    """A worker that sleeps has seen the work, or is woken. futexWait() compares the epoch
    again and sleeps at once; a wake that comes later ends the sleep."""

    def notifies() -> Steps:
        yield store("work", 1, "relaxed")
        yield update("epoch", orders["tell"], lambda epoch: epoch + 1)
        return (yield load("parked", orders["is parked"])) > 0

    def sleeps() -> Steps:
        seen = yield load("epoch", orders["latest"])
        if (yield load("work", "relaxed")):
            return False
        yield update("parked", orders["park"], lambda parked: parked + 1)
        return (yield load("epoch", orders["look again"])) == seen

    initial = {"work": 0, "epoch": 0, "parked": 0}
    return Program([notifies, sleeps], initial, lambda ends: ends[0] or not ends[1])


PARKING = Protocol(
    parking,
    {
        "tell": Site(NEWS, "epoch.fetch_add(1, ORDER)"),
        "is parked": Site(NEWS, "parked.load(ORDER) > 0"),
        "latest": Site(NEWS, "epoch.load(ORDER); }"),
        "park": Site("runtime/workers/News.cpp", "parked.fetch_add(1, ORDER)"),
        "look again": Site("runtime/workers/News.cpp", "epoch.load(ORDER) == seen"),
    },
)

SIGNAL = "runtime/execute/CallerSignal.h"
CALLER = "runtime/execute/CallerSignal.cpp"


def sleep_of_the_caller(orders: Orders) -> Program:
    def tells() -> Steps:
        yield store("work", 1, "relaxed")
        yield update("news", orders["tell"], lambda news: news + 1)
        return (yield load("sleeps", orders["is asleep"]))

    def sleeps() -> Steps:
        seen = yield load("news", orders["latest"])
        if (yield load("work", "relaxed")):
            return False
        yield store("sleeps", True, orders["sleep"])
        return (yield load("news", orders["look again"])) == seen

    initial = {"work": 0, "news": 0, "sleeps": False}
    return Program([tells, sleeps], initial, lambda ends: ends[0] or not ends[1])


SLEEP = Protocol(
    sleep_of_the_caller,
    {
        "tell": Site(SIGNAL, "news.fetch_add(1, ORDER)"),
        "is asleep": Site(SIGNAL, "if (sleeps.load(ORDER))"),
        "latest": Site(SIGNAL, "latest() const { return news.load(ORDER)"),
        "sleep": Site(CALLER, "sleeps.store(true, ORDER)"),
        "look again": Site(CALLER, "news.load(ORDER) == seen"),
    },
)

RUN = "runtime/execute/ParallelRun.cpp"
PIECES, TASKS_OF_A_SUPER_KERNEL = 2, 9


def _work_at(orders: Orders, name: int) -> Steps:
    """A worker's turn at a stream. Word 1 is a launch of which no piece is taken. The
    worker that ends the last piece publishes a super kernel, whose tasks are taken
    without a change of the word."""
    word = yield load("claim", orders["look"])
    while word:
        if word == TASKS_OF_A_SUPER_KERNEL:
            yield load("input of tasks")
            return
        if word > PIECES:
            return
        now = yield exchange(
            "claim", orders["claim"], word, word + 1, orders["claim again"]
        )
        if now == word:
            yield from _run_piece(orders, f"result {word}", name)
            word += 1
        else:
            word = now


def _run_piece(orders: Orders, result: str, name: int) -> Steps:
    yield load("input")
    yield store(result, 1)
    left = yield update("unfinished", orders["finish"], lambda left: left - 1)
    if left == 1:
        yield load("result 1")
        yield load("result 2")
        yield store("cursor", name)
        yield store("input of tasks", 1)
        yield store("claim", TASKS_OF_A_SUPER_KERNEL, orders["publish"])


def claims_of_a_stream(orders: Orders) -> Program:
    """A claim sees what the stream did before. The worker that ends the last piece sees
    the results of all, and owns the cursor."""

    def publishes() -> Steps:
        yield store("input", 1)
        yield store("cursor", 0)
        yield store("unfinished", PIECES, "relaxed")
        yield store("claim", 1, orders["publish"])
        yield from _work_at(orders, 0)

    def helps() -> Steps:
        yield from _work_at(orders, 1)

    places = ("claim", "unfinished", "input", "cursor", "result 1", "result 2")
    initial = dict.fromkeys((*places, "input of tasks"), 0)
    return Program([publishes, helps], initial, lambda _: True)


CLAIMS = Protocol(
    claims_of_a_stream,
    {
        "publish": Site(RUN, "flags).bits, ORDER);"),
        "look": Site(RUN, "word = state.word(ORDER); while"),
        "claim": Site(RUN, "word.bits, next.bits, ORDER, ANY)"),
        "claim again": Site(RUN, "word.bits, next.bits, ANY, ORDER)"),
        "finish": Site(RUN, "unfinished.fetch_sub(piece.count, ORDER)"),
    },
    spare={
        "claim -> acquire": "an update carries the release of publishing on",
        "claim -> release": "the look has acquired the word",
    },
)

RECORDED, WAITS = 2, 1


def events_between_streams(orders: Orders) -> Program:
    """A stream that finds the event recorded sees what came before it. A stream that does
    not leaves its cursor to the worker that records the event."""

    def records() -> Steps:
        yield store("result", 1)
        event = yield update("event", orders["record"], lambda e: e | RECORDED)
        if event & WAITS:
            yield store("cursor", 2)

    def waits() -> Steps:
        yield store("cursor", 1)
        event = yield update("event", orders["wait"], lambda e: e | WAITS)
        if event & RECORDED:
            yield load("result")

    initial = {"event": 0, "result": 0, "cursor": 0}
    return Program([records, waits], initial, lambda _: True)


EVENTS = Protocol(
    events_between_streams,
    {
        "record": Site(RUN, "word.fetch_or(EventState::recorded, ORDER)"),
        "wait": Site(RUN, "word.fetch_or(uint64_t(1) << stream, ORDER)"),
    },
)


def end_of_the_streams(orders: Orders) -> Program:
    """The caller goes on when no stream is left, and reads the results of all."""

    def stream(name: str) -> Callable[[], Steps]:
        def runs() -> Steps:
            yield store(name, 1)
            yield update("left", orders["end"], lambda left: left - 1)

        return runs

    def caller() -> Steps:
        yield await_("left", orders["finished"], lambda left: left == 0)
        yield load("a")
        yield load("b")

    initial = {"left": 2, "a": 0, "b": 0}
    return Program([stream("a"), stream("b"), caller], initial, lambda _: True)


END = Protocol(
    end_of_the_streams,
    {
        "end": Site(RUN, "streamsLeft.fetch_sub(1, ORDER)"),
        "finished": Site("runtime/execute/ParallelRun.h", "streamsLeft.load(ORDER)"),
    },
    spare={"end -> release": "the caller alone reads the results"},
)

SUPER = "runtime/superkernel/SuperKernelRun.h"
PARTICIPANT = "runtime/superkernel/Participant.cpp"


def counters_of_a_super_kernel(orders: Orders) -> Program:
    """A ready task sees its inputs. A worker that leaves idle sees the task that became
    ready, or is called back."""

    def runs_a_task() -> Steps:
        yield store("input", 1)
        yield update("counter", orders["signal"], lambda count: count + 1)
        return (yield load("idle", orders["is idle"])) > 0

    def leaves() -> Steps:
        yield update("idle", orders["leave"], lambda idle: idle + 1)
        if (yield load("counter", orders["is ready"])) == 0:
            return True
        yield load("input")
        return False

    initial = {"input": 0, "counter": 0, "idle": 0}
    threads = [runs_a_task, leaves]
    return Program(threads, initial, lambda ends: ends[0] or not ends[1])


COUNTERS = Protocol(
    counters_of_a_super_kernel,
    {
        "signal": Site(SUPER, ".fetch_add(1, ORDER)"),
        "is ready": Site(SUPER, "counterAt(on.counter).load(ORDER)"),
        "is idle": Site(PARTICIPANT, "run.idle.load(ORDER) > 0"),
        "leave": Site(PARTICIPANT, "run.idle.fetch_add(1, ORDER)"),
    },
)


def end_of_a_super_kernel(orders: Orders) -> Program:
    """The worker that counts the last task as done sees the results of all."""

    def worker(own: str, other: str) -> Callable[[], Steps]:
        def works() -> Steps:
            yield store(own, 1)
            left = yield update("unfinished", orders["finish"], lambda left: left - 1)
            if left == 1:
                yield load(other)

        return works

    initial = {"unfinished": 2, "a": 0, "b": 0}
    threads = [worker("a", "b"), worker("b", "a")]
    return Program(threads, initial, lambda _: True)


TASKS = Protocol(
    end_of_a_super_kernel,
    {"finish": Site(SUPER, "unfinished.fetch_sub(tasks, ORDER)")},
)

FORK = "process/Fork.h"


def object_of_the_process(orders: Orders) -> Program:
    """Threads that ask at once get one object, and see it whole."""

    def get(own: str) -> Callable[[], Steps]:
        def gets() -> Steps:
            known = yield load("current", orders["find"])
            if not known:
                yield store(own, 1)
                known = yield load("current", orders["look"])
                if not known:
                    known = yield exchange("current", orders["publish"], "", own)
            yield load(known or own)
            return known or own

        return gets

    initial = {"current": "", "a": 0, "b": 0}
    return Program([get("a"), get("b")], initial, lambda ends: ends[0] == ends[1])


FOUND = Protocol(
    object_of_the_process,
    {
        "find": Site(FORK, "Made *made = current.load(ORDER)"),
        "look": Site(FORK, "Made *before = current.load(ORDER)"),
        "publish": Site(FORK, "compare_exchange_weak(before, made.get(), ORDER)"),
    },
)

OBJECTS = "runtime/execute/ObjectPool.h"


def object_of_the_pool(orders: Orders) -> Program:
    """A call that takes an object sees what the call that gave it has written."""

    def gives() -> Steps:
        yield store("object", 1)
        yield exchange("place", orders["give"], "", "object")

    def takes() -> Steps:
        if (yield update("place", orders["take"], lambda _: "")):
            yield store("object", 2)
            yield exchange("place", orders["give"], "", "object")

    def takes_it_again() -> Steps:
        wanted = yield exchange("place", orders["take wanted"], "object", "")
        if wanted == "object":
            yield load("object")

    threads = [gives, takes, takes_it_again]
    return Program(threads, {"place": "", "object": 0}, lambda _: True)


GIVEN = Protocol(
    object_of_the_pool,
    {
        "give": Site(OBJECTS, "compare_exchange_strong(none, object, ORDER)"),
        "take": Site(OBJECTS, "place.exchange(nullptr, ORDER)"),
        "take wanted": Site(
            OBJECTS, "compare_exchange_strong(waiting, nullptr, ORDER)"
        ),
    },
)

ALL = {
    protocol.program.__name__: protocol
    for protocol in (PLACE, PARKING, SLEEP, CLAIMS, EVENTS, END, COUNTERS, TASKS)
    + (FOUND, GIVEN)
}
