"""Has a running server take other weights of its model, for example after training:
new_weights.py FOLDER. The server runs with VLLM_SERVER_DEV_MODE=1, which opens these
calls to everybody who reaches it.

Requests that are under way end with the old weights, and later ones wait for the new."""

import argparse
from pathlib import Path

import httpx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", default="http://localhost:8000")
    parser.add_argument("folder", type=Path, help="a checkpoint of the model")
    given = parser.parse_args()
    reload = {
        "method": "reload_weights",
        "kwargs": {"weights_path": str(given.folder.resolve())},
    }
    with httpx.Client(base_url=given.server, timeout=600) as server:
        server.post("/pause", params={"mode": "wait"}).raise_for_status()
        try:
            server.post("/collective_rpc", json=reload).raise_for_status()
        finally:
            server.post("/resume").raise_for_status()
    print(f"{given.server} has the weights of {given.folder}")


if __name__ == "__main__":
    main()
