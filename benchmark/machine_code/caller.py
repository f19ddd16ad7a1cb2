"""caller.py LIBRARY NAME TILES: calls the first tiles of a kernel, for a parent that traces.

It says where the kernel begins and how many tiles it calls, and waits for the parent."""

import ctypes
import json
import mmap
import os
import signal
import sys

PTRACE_TRACEME = 0
# Buffers of a kernel: more, and larger, than any kernel of the table has. They begin
# in different sets of the second-level cache.
BUFFERS, BUFFER_BYTES, APART = 16, 1 << 27, 0x15000


class Plan(ctypes.Structure):
    """As in include/anabranch/KernelABI.h."""

    _fields_ = [("tiles", ctypes.c_int64), ("scratch", ctypes.c_int64)]


def main() -> None:
    library, name, tiles = sys.argv[1:]
    kernels = ctypes.CDLL(library)
    plan = Plan()
    getattr(kernels, f"{name}_plan")(None, ctypes.byref(plan))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    size = BUFFER_BYTES + BUFFERS * APART
    memory = [mmap.mmap(-1, size, flags) for _ in range(BUFFERS + 1)]
    starts = [
        ctypes.addressof(ctypes.c_char.from_buffer(one)) + number * APART
        for number, one in enumerate(memory)
    ]
    buffers = (ctypes.c_void_p * BUFFERS)(*starts[:BUFFERS])
    kernel = getattr(kernels, name)
    count = min(int(tiles), plan.tiles)
    print(json.dumps([ctypes.cast(kernel, ctypes.c_void_p).value, count]), flush=True)
    ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    for tile in range(count):
        kernel(buffers, None, ctypes.c_void_p(starts[BUFFERS]), ctypes.c_int64(tile))


if __name__ == "__main__":
    main()
