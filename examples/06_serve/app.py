"""The Ray Serve application: replicas that batch requests, over one package.

A request is a POST of a sentence to `/`; the answer is JSON with its vector and the
package that made it. A new `user_config` reloads in place: a replica opens the new
package beside the old one and changes over between two batches, so no request is
dropped. Ray asks `check_health` of each replica and answers `/-/healthz`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import ray
from embedding import ROWS
from engines import open_engine
from ray import serve

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = "127.0.0.1"
REPLICAS = 2


class Service:
    """One replica: a process with an engine of one thread."""

    def __init__(self) -> None:
        self.loaded: tuple[Any, str] | None = None
        # Batches run in a thread, so that the event loop can take requests meanwhile.
        self.worker = ThreadPoolExecutor(1)

    async def reconfigure(self, config: dict[str, str]) -> None:
        """Opens the engine in `config`, {"engine": ..., "path": ...}. Batches that are
        running finish on the old engine."""
        loop, path = asyncio.get_running_loop(), config["path"]
        engine = await loop.run_in_executor(None, open_engine, config["engine"], path)
        self.loaded = engine, path

    def check_health(self) -> None:
        assert self.loaded is not None
        if not numpy.isfinite(self.loaded[0](["Are you well?"])).all():
            raise RuntimeError("the engine gives numbers that are none")

    @serve.batch(max_batch_size=ROWS[-1], batch_wait_timeout_s=0.002)
    async def embed(self, sentences: list[str]) -> list[dict[str, Any]]:
        """The vectors of all waiting sentences, up to the largest gear."""
        assert self.loaded is not None
        engine, path = self.loaded
        loop = asyncio.get_running_loop()
        vectors = await loop.run_in_executor(self.worker, engine, sentences)
        return [{"vector": row.tolist(), "package": path} for row in vectors]

    async def __call__(self, request: Any) -> dict[str, Any]:
        return await self.embed((await request.body()).decode())


def deployment() -> Any:
    """Two replicas of the service, each with a CPU of its own."""
    return serve.deployment(
        num_replicas=REPLICAS,
        ray_actor_options={"num_cpus": 1},
        max_ongoing_requests=64,
        health_check_period_s=5,
        graceful_shutdown_timeout_s=10,
    )(Service)


def deploy(engine: str, path: str) -> None:
    """Starts the application, or reloads it if only its configuration changed."""
    config = {"engine": engine, "path": path}
    serve.run(deployment().options(user_config=config).bind(), name=engine)


@contextlib.contextmanager
def cluster(port: int) -> Iterator[str]:
    """Starts Ray on this machine with two CPUs and little shared memory, and stops it
    after the block. Gives the address of the service."""
    paths = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}},
    )
    try:
        serve.start(http_options={"host": HOST, "port": port})
        yield f"http://{HOST}:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()
