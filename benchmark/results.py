"""Keeps figures, and writes the pages that show them.

results.py keep [RUN]   puts the cases of a run (benchmark/runs/*.json; the newest
                        unless named) into the file of its machine, and writes the pages
results.py pages        writes the pages of figures, and of README.md the claim and the table
results.py check        fails if a page differs from the kept figures

A machine has one file, benchmark/results/<machine>.json, and one in language/ for rates of
language models (language/equal_bits.py), which claims leave out. Each case in it names the run
that it comes from, so that a run of a few cases replaces only these. Nothing is left
out: a case that failed or lost is kept like the others."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from record import HERE, RUNS, Row, cell, read, write

ROOT = HERE.parent
RESULTS = HERE / "results"
README = ROOT / "README.md"
# The first line names the machine whose figures README.md shows.
MARKED = re.compile(
    r"(<!-- benchmark (\S+) -->\n).*?(<!-- /benchmark -->\n)", re.DOTALL
)
CLAIM = re.compile(r"(<!-- claim -->\n).*?(<!-- /claim -->\n)", re.DOTALL)
# Language models' encoders in f32, which README.md makes a claim of.
CLAIM_CASES = (
    *("minilm-1", "minilm-8", "bert-base"),
    *("workload-minilm-1-f32", "workload-bert-f32"),
)
# The part of a path or address up to its last slash.
PLACE = re.compile(r"(?:\bhttps?:/|(?<![\w.]))/[^\s'\"]*/")
README_COLUMNS = {
    "eager": "PyTorch eager",
    "inductor": "Inductor",
    "anabranch": "Anabranch",
}
README_CASES = (
    "minilm-1",
    "minilm-1-one-thread",
    "minilm-1-contended",
    "minilm-8",
    "bert-base",
    "softmax",
    "layer-norm",
    "call-1",
    "call-200",
    "cold-minilm",
    "memory",
)

# Rates have a page of their own, since there larger is better.
RATES = "language"
ROUNDS_LIKE = {"llama.cpp": "Anabranch, bytes", "OpenVINO": "Anabranch, bytes, bf16"}
ABOUT_RATES = (
    "Written by `benchmark/results.py` from the JSON beside this page. Larger is better.",
    "Rates are medians of rounds in turns; the JSON has the slowest and the fastest round.",
    "`benchmark/language/equal_bits.py` says what the cells mean and how programs round.",
    "The last columns are Anabranch's rate, with the rounding of a peer, over the peer's.",
)
ABOUT_PAGES = (
    "Written by `benchmark/results.py` from the JSON beside this page. Smaller is better.",
    "Times are medians; the JSON has the fastest and slowest tenths and the notes too.",
    "An empty cell: the contender did not take part.",
)


def machine_name(machine: dict) -> str:
    """A file name: "amd-epyc-znver4-2-cpus-avx512". Old records do not know the core."""
    core = machine.get("core", "")
    words = f"{machine['cpu']} {core} {machine['cpus']} cpus {machine['capability']}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def without_places(row: dict) -> dict:
    """The row without names of folders and hosts, which mean nothing on other machines."""
    texts = {key: row[key] for key in ("error", "note") if key in row}
    return row | {key: PLACE.sub("", text) for key, text in texts.items()}


def keep(run: dict) -> Path:
    """Merges a run into the figures of its machine."""
    path = RESULTS / run.get("page", "") / f"{machine_name(run['machine'])}.json"
    kept = read(path) if path.exists() else {"runs": {}, "cases": {}}
    kept["machine"] = run["machine"]
    date = run["run"]["date"]
    kept["runs"][date] = {key: run["run"][key] for key in run["run"] if key != "date"}
    for name, case in run["cases"].items():
        rows = [without_places(row) for row in case["rows"]]
        kept["cases"][name] = {"what": case["what"], "run": date, "rows": rows}
    used = {case["run"] for case in kept["cases"].values()}
    kept["runs"] = {date: kept["runs"][date] for date in sorted(used)}
    order = ("machine", "runs", "cases")
    write({key: kept[key] for key in order}, path)
    return path


def rows_of(case: dict) -> dict[str, Row]:
    return {row["contender"]: Row(**row) for row in case["rows"]}


def table(heads: list[str], lines: list[list[str]]) -> list[str]:
    rows = [f"| {' | '.join(cells)} |" for cells in [heads, *lines]]
    return [rows[0], "|---" * len(heads) + "|", *rows[1:]]


def about(machine: dict) -> str:
    core = f" ({machine['core']})" if "core" in machine else ""
    return f"{machine['cpu']}{core}, {machine['cpus']} CPUs, {machine['capability']}"


def over_peers(rows: dict[str, Row]) -> dict[str, str]:
    """For each peer the rate of Anabranch, with the peer's rounding, over the peer's."""
    found = {}
    for peer, own in ROUNDS_LIKE.items():
        if peer in rows:
            like = rows.get(own, rows.get("Anabranch", Row(own)))
            both = like.value and rows[peer].value
            found[peer] = f"{like.value / rows[peer].value:.2f}" if both else ""
    return found


def page(kept: dict, rates: bool = False) -> str:
    """All cases. Cases with the same contenders share a table."""
    machine = kept["machine"]
    lines = [
        f"# {about(machine)}",
        "",
        *(ABOUT_RATES if rates else ABOUT_PAGES),
        "",
    ]
    lines += table(
        ["run", "torch", "Python", "threads", "figures from"],
        [
            [date, run["torch"], run["python"], str(run["threads"]), run["source"]]
            for date, run in kept["runs"].items()
        ],
    )
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for name, case in kept["cases"].items():
        rows = rows_of(case)
        cells = [f"`{name}`", case["what"], case["run"], *map(cell, rows.values())]
        if rates:
            cells = [*cells[1:], *over_peers(rows).values()]
        groups.setdefault(tuple(rows), []).append(cells)
    for contenders, cases in groups.items():
        heads = ["case", "what", "run", *contenders]
        if rates:
            peers = [peer for peer in ROUNDS_LIKE if peer in contenders]
            heads = [*heads[1:], *(f"of {peer}" for peer in peers)]
        lines += ["", *table(heads, cases)]
    return "\n".join(lines) + "\n"


def readme_table(kept: dict, name: str) -> str:
    cases = {
        case: kept["cases"][case] for case in README_CASES if case in kept["cases"]
    }
    runs = [kept["runs"][date] for date in sorted({c["run"] for c in cases.values()})]
    dates = " and ".join(sorted({case["run"] for case in cases.values()}))
    versions = ", ".join(sorted({run["torch"] for run in runs}))
    lines = [
        f"{about(kept['machine'])}, torch {versions}, measured {dates}.",
        f"Smaller is better. [All cases and columns](benchmark/results/{name}.md).",
        "",
    ]
    lines += table(
        ["what", *README_COLUMNS.values()],
        [
            [case["what"], *(cell(rows_of(case).get(head)) for head in README_COLUMNS)]
            for case in cases.values()
        ],
    )
    return "\n".join(lines) + "\n"


def ratios(records: list[dict]) -> dict[str, list[float]]:
    """Of the cases of the claim on all machines: the time of the frozen model over that
    of eager, of Inductor and of the fastest peer."""
    found: dict[str, list[float]] = {"eager": [], "inductor": [], "best": []}
    for kept in records:
        for name in CLAIM_CASES:
            rows = rows_of(kept["cases"][name]) if name in kept["cases"] else {}
            times = {who: row.value for who, row in rows.items() if row.value > 0}
            own = times.get("anabranch frozen", 0.0)
            peers = {
                who: time
                for who, time in times.items()
                if who != "exported" and not who.startswith("anabranch")
            }
            if own and peers:
                found["best"].append(own / min(peers.values()))
                for who in ("eager", "inductor"):
                    found[who] += [own / peers[who]] if who in peers else []
    return found


def claim(records: list[dict]) -> str:
    """The line of README.md that says how fast models are."""
    spans = {
        who: f"{min(times):.2f} to {max(times):.2f}"
        for who, times in ratios(records).items()
    }
    machines = [r for r in records if ratios([r])["best"]]
    return (
        f"- **Lower latency**: MiniLM and BERT with frozen weights in f32 take"
        f" {spans['eager']} of\n"
        f"  eager PyTorch's time, {spans['inductor']} of Inductor's, and"
        f" {spans['best']} of that of the fastest peer\n"
        f"  measured on the same machine; {len(machines)} kinds of machines"
        f" ([figures](#figures)).\n"
    )


def readme(text: str) -> str:
    """README.md with the claim, and the table of the machine that its marker names."""
    kept = [read(path) for path in sorted(RESULTS.glob("*.json"))]
    if not CLAIM.search(text):
        sys.exit("README.md has no line `<!-- claim -->`")
    text = CLAIM.sub(lambda m: m[1] + claim(kept) + m[2], text)
    found = MARKED.search(text)
    if not found:
        sys.exit("README.md has no line `<!-- benchmark MACHINE -->`")
    begin, name, end = found.groups()
    figures = readme_table(read(RESULTS / f"{name}.json"), name)
    return text[: found.start()] + begin + figures + end + text[found.end() :]


def records() -> list[Path]:
    """The files of kept figures."""
    return [
        path for at in ("", RATES) for path in sorted((RESULTS / at).glob("*.json"))
    ]


def pages() -> dict[Path, str]:
    """The text that each page should have."""
    found = {
        path.with_suffix(".md"): page(read(path), path.parent.name == RATES)
        for path in records()
    }
    return {**found, README: readme(README.read_text())}


def check() -> list[str]:
    """The pages that differ from the kept figures, and those without figures."""
    wanted = pages()
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    stale += [path for path in RESULTS.glob("*.md") if path not in wanted]
    return [str(path.relative_to(ROOT)) for path in sorted(stale)]


def newest_run() -> Path:
    runs = sorted(RUNS.glob("*.json"))
    return (
        runs[-1] if runs else sys.exit("benchmark/runs has no run: `make bench` first")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    keeper = actions.add_parser("keep", help="puts a run into its machine's figures")
    keeper.add_argument("run", nargs="?", type=Path, help="else the newest run")
    actions.add_parser("pages", help="writes the pages")
    actions.add_parser("check", help="compares the pages with the figures")
    given = parser.parse_args()
    if given.action == "check":
        stale = check()
        for name in stale:
            print(f"{name} is not what `benchmark/results.py pages` writes")
        return 1 if stale else 0
    if given.action == "keep":
        print(keep(read(given.run or newest_run())).relative_to(ROOT))
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
