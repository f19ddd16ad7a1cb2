"""A load generator: clients on loopback, each with one request at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import time

import aiohttp

SENTENCES = [
    "The stream leaves its bed and returns further down.",
    "A river splits around the island and joins again.",
    "My cat sleeps on the warm keyboard all afternoon.",
    "Kernels are generated for the shapes of the model.",
]
MOST_REQUESTS = 50_000  # the most requests of one run; it keeps a number or two of each
TIMEOUT = aiohttp.ClientTimeout(total=30)


@dataclasses.dataclass
class Load:
    """The answers that the clients got."""

    times: list[float] = dataclasses.field(default_factory=list)  # seconds
    errors: list[str] = dataclasses.field(default_factory=list)
    # in the order of the answers
    packages: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def percentile(self, part: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        ordered = sorted(self.times)
        return 1e3 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.times) / self.seconds


async def run(
    url: str, clients: int, seconds: float, stop: asyncio.Event | None = None
) -> Load:
    """Sends requests for this many seconds or until `stop` is set, and at most
    `MOST_REQUESTS`."""
    load = Load()
    stop = stop or asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    start = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session:
        each = [_client(session, url, number, stop, load) for number in range(clients)]
        await asyncio.gather(*each)
    load.seconds = time.perf_counter() - start
    return load


async def _client(
    session: aiohttp.ClientSession,
    url: str,
    number: int,
    stop: asyncio.Event,
    load: Load,
) -> None:
    while not stop.is_set() and len(load.times) < MOST_REQUESTS:
        sentence = SENTENCES[number % len(SENTENCES)]
        start = time.perf_counter()
        try:
            async with session.post(url, data=sentence) as response:
                answer = await response.json(content_type=None)
                assert response.status == 200, response.status
                assert len(answer["vector"]) == 384
        except Exception as error:  # noqa: BLE001 - each is counted
            load.errors.append(f"{type(error).__name__}: {error}")
            continue
        load.times.append(time.perf_counter() - start)
        if not load.packages or load.packages[-1] != answer["package"]:
            load.packages.append(answer["package"])
        number += 1
