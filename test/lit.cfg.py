"""The lit suites: test/<room>/*.mlir, `// RUN:` lines over anabranch-opt.

The build is build/ beside the sources, or what `lit -Dbuild=DIR` names.
"""

import os
from pathlib import Path

import lit.formats

config = globals()["config"]
lit_config = globals()["lit_config"]

root = Path(__file__).resolve().parent.parent
build = Path(lit_config.params.get("build", root / "build"))
llvm = Path("/usr/lib/llvm-19/bin")

config.name = "anabranch"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["python", "repo", "Inputs"]
config.test_source_root = str(root / "test")
config.test_exec_root = str(build / "test")
config.environment["PATH"] = os.pathsep.join(
    [str(build / "bin"), str(llvm), config.environment["PATH"]]
)
config.substitutions += [("%root", str(root)), ("%build", str(build))]
