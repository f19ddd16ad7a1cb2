"""What every file holds to: a licence head, no machine's paths, no hosts."""

import re

from repository import ROOT, text, tracked

LICENSE_LINE = "Part of the Anabranch project, under the Apache License v2.0."
LICENSED = (".cpp", ".h", ".c", ".td", ".fbs")
# Hosts that documents and licences may point to.
HOSTS = {"www.apache.org", "github.com"}
MACHINE_PATH = re.compile(r"""(?<![\w.$}~/-])/(?:home|root|work|opt|mnt|Users)/\w""")


def report(problems: list[str]) -> None:
    assert not problems, "\n".join(problems)


def test_licence_heads() -> None:
    report(
        [
            f"{path.relative_to(ROOT)}: no licence line in the first 12 lines"
            for path in tracked()
            if path.suffix in LICENSED
            and LICENSE_LINE not in "\n".join(text(path).splitlines()[:12])
        ]
    )


def test_no_machine_paths() -> None:
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in tracked()
            for number, line in enumerate(text(path).splitlines(), 1)
            if MACHINE_PATH.search(line)
        ]
    )


def test_no_foreign_hosts() -> None:
    url = re.compile(r"https?://([\w.-]+)")
    report(
        [
            f"{path.relative_to(ROOT)}: {host}"
            for path in tracked()
            for host in url.findall(text(path))
            if host not in HOSTS
        ]
    )


def test_no_unowned_promises() -> None:
    """House rule: what is not done is an issue, not a remark in the code."""
    mark = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|XX" + r"X)\b")
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in tracked()
            if path.suffix in (*LICENSED, ".py", ".cmake", ".sh", ".mlir")
            for number, line in enumerate(text(path).splitlines(), 1)
            if mark.search(line)
        ]
    )
