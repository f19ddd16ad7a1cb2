"""Stubs have what PyTorch's libraries ask NVIDIA's for, and nothing else."""

from __future__ import annotations

from cuda_stubs import Library, stubs_for

TORCH = Library(
    needed=["libcudart.so.13", "libnccl.so.2", "libc10.so", "libc.so.6"],
    versions={"CUDA_13": "libcudart.so.13", "GLIBC_2.17": "libc.so.6"},
    wanted={
        "cudaMalloc": "CUDA_13",
        "malloc": "GLIBC_2.17",
        "ncclSend": "",
        "PyLong_Type": "",
        "c10_check": "",
    },
    defined=set(),
)
C10 = Library(needed=[], versions={}, wanted={}, defined={"c10_check"})


def test_symbols_are_in_the_library_of_their_version() -> None:
    stubs = stubs_for([TORCH, C10])
    assert list(stubs) == ["libcudart.so.13", "libnccl.so.2"]
    # A symbol without a version may be in any library.
    assert stubs["libcudart.so.13"].symbols == {
        "CUDA_13": ["cudaMalloc"],
        "": ["ncclSend"],
    }
    assert not stubs["libnccl.so.2"].symbols


def test_functions_say_that_there_is_no_device() -> None:
    stub = stubs_for([TORCH, C10])["libcudart.so.13"]
    assert stub.source().splitlines() == [
        "int cudaMalloc(void) { return 100; }",
        "int ncclSend(void) { return 100; }",
    ]
    assert stub.version_script() == "CUDA_13 { global: cudaMalloc; };\n"
