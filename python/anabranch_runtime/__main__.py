"""python -m anabranch_runtime: prints where the C and C++ API is, for
CMAKE_PREFIX_PATH."""

from . import prefix

print(prefix())
