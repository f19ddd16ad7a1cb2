"""The same package behind uvicorn alone: `PACKAGE=folder uvicorn plain:app`."""

import asyncio
import json
import os
from typing import Any

from embedding import Embedding

embed = Embedding(os.environ["PACKAGE"])


async def read(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def answer(send: Any, status: int, content: dict) -> None:
    headers = [(b"content-type", b"application/json")]
    start = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


async def app(scope: dict, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return  # uvicorn then goes on without the other protocols
    if scope["path"] == "/healthz":
        await answer(send, 200, {"ready": True})
        return
    sentence = (await read(receive)).decode()
    vectors = await asyncio.to_thread(embed, [sentence])
    await answer(send, 200, {"vector": vectors[0].tolist(), "package": "plain"})
