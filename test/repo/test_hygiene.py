"""Rules for every file: a licence, no machine's paths, no hosts, one style of C++."""

import re

from repository import ROOT, text, tracked

LICENSE_LINE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = (".cpp", ".h", ".c", ".td", ".fbs")
# Hosts that documents and licences may point to.
HOSTS = {"www.apache.org", "github.com", "localhost"}
MACHINE_PATH = re.compile(r"""(?<![\w.$}~/-])/(?:home|root|work|opt|mnt|Users)/\w""")


def report(problems: list[str]) -> None:
    assert not problems, "\n".join(problems)


def test_licence_heads() -> None:
    report(
        [
            f"{path.relative_to(ROOT)}: no licence line in the first lines"
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
    """House rule: open work is an issue, not a remark in the code."""
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


SOURCES = tuple(
    f"{folder}/**{suffix}"
    for folder in ("src", "include", "python", "tools", "test/support", "benchmark")
    for suffix in (".h", ".cpp")
)


def test_banners_are_whole() -> None:
    """The first line names its file and reaches from one border to the other."""
    problems = []
    for path in tracked(*SOURCES, "src/**.td"):
        first = text(path).splitlines()[0]
        if first.startswith("//===") and not (
            len(first) == 80
            and re.fullmatch(rf"//===- {re.escape(path.name)} - [^-].*===//", first)
        ):
            problems.append(f"{path.relative_to(ROOT)}: {first}")
    report(problems)


def test_a_room_opens_namespaces_in_one_way() -> None:
    """`namespace a::b {` everywhere, but where MLIR's own style nests them."""
    rooms = re.findall(r"anabranch_room\((\w+) LLVM", text(ROOT / "CMakeLists.txt"))
    nesting = {f"src/{room}/" for room in rooms} | {
        "test/support/kernels/",
        "test/support/native/",
    }
    joined = re.compile(r"^namespace \w+(?:::\w+)+ \{", re.MULTILINE)
    nested = re.compile(r"^namespace \w+ \{\n+namespace \w+ \{", re.MULTILINE)
    problems = []
    for path in tracked(*SOURCES):
        name = str(path.relative_to(ROOT))
        nests = name.startswith(tuple(nesting))
        if found := (joined if nests else nested).search(text(path)):
            problems.append(f"{name}: {found[0]!r}")
    report(problems)


def test_constants_have_no_prefix() -> None:
    """Our constants are `names`, our enumerators `Names`; `kPack` is a factor, and `kB`
    a unit of Linux."""
    prefixed = re.compile(r"(?<![\w:])k[A-Z]\w*")
    others = {"kPack", "kPackOf", "kB"}
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {name}"
            for path in tracked(*SOURCES)
            for number, line in enumerate(text(path).splitlines(), 1)
            for name in prefixed.findall(line)
            if name not in others
        ]
    )


def test_no_class_keeps_a_reference_to_a_function() -> None:
    """A `function_ref` does not keep the caller's lambda alive: a temporary one is gone
    when the constructor returns. Members are `std::function`."""
    member = re.compile(r"^ +(?:const )?(?:llvm::)?function_ref<.*> \w+( = [^)]*)?;")
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in tracked(*SOURCES)
            for number, line in enumerate(text(path).splitlines(), 1)
            if member.match(line)
        ]
    )


def test_no_loop_runs_over_a_view_of_a_temporary() -> None:
    """`reverse(f())` is a view. What `f` returns by value ends before the first turn."""
    view = re.compile(
        r"for \(.* : llvm::(?:reverse|drop_begin|drop_end)\((?!llvm::)[\w:]+\([^)]"
    )
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in tracked(*SOURCES)
            for number, line in enumerate(text(path).splitlines(), 1)
            if view.search(line)
        ]
    )


def test_the_stable_abi_is_that_of_3_12() -> None:
    """Headers of a later CPython hide its newer functions from a binding for this ABI, so a
    question for the version asks for the ABI too."""
    newer = re.compile(
        r"#\s*(?:el)?if.*PY_VERSION_HEX\s*>=?\s*0x030[D-F]", re.IGNORECASE
    )
    report(
        [
            f"{path.relative_to(ROOT)}:{number}: {line}"
            for path in tracked("python/bindings/*")
            for number, line in enumerate(text(path).splitlines(), 1)
            if newer.search(line) and "!defined(Py_LIMITED_API)" not in line
        ]
    )
