"""Follows CONTRIBUTING.md: adds an operator, a pass, a runtime step, a plan, and an operator
of torch_npu.

Each recipe is a few edits of a copy of the sources. The copy is built once, and then each
new thing must work. A recipe that needs more files than it names fails here.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from repository import ROOT, tracked

pytestmark = pytest.mark.slow

LIT = Path(sys.executable).parent / "lit"
PARSED_HEADERS = ROOT / "build" / "precompiled.pch"
HEAD = """//===- {name} - a recipe's test ===//
// SPDX-License-Identifier: Apache-2.0
"""


def code(recipe: str) -> list[str]:
    """The code blocks of one recipe of CONTRIBUTING.md."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = page.partition(f"### {recipe}\n")[2].partition("\n###")[0]
    blocks = re.findall(r"```(?:cpp|mlir|python)\n(.*?)```", section, re.DOTALL)
    return [textwrap.dedent(block) for block in blocks]


(OPERATOR_ROW,) = code("An operator")
PASS_FILE, PASS_TEST = code("A pass")
(PLAN_FILE,) = code("A plan")
NPU_FILE, NPU_CALL, NPU_TEST = code("An operator of torch_npu")

PLAN_HEADER = """
#ifndef ANABRANCH_KERNELS_RECIPE_RECIPEPLAN_H
#define ANABRANCH_KERNELS_RECIPE_RECIPEPLAN_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

extern const PlanRow recipeRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_RECIPE_RECIPEPLAN_H
"""

STEP_CASE = """
TEST_P(Conformance, RecipeClears) {
  ProgramMaker m;
  int x = m.input("x", {fixed(4)});
  int a = m.arena(0, {fixed(4)}, 16), y = m.output({fixed(4)});
  m.copy(x, a);
  ClearT clear;
  clear.buffer = a;
  m.push(clear, 0);
  m.copy(a, y);
  auto executable = open(m);
  ASSERT_TRUE(executable);
  ASSERT_TRUE(run(*executable, {TensorArgument(iota(4, 1))}).ok());
  expectOutput(0, {0, 0, 0, 0});
}

"""


@dataclass
class Recipe:
    """The edits of a recipe: new files, and text before an anchor in existing files."""

    new: dict[str, str] = field(default_factory=dict)
    before: list[tuple[str, str, str]] = field(default_factory=list)

    def follow(self, folder: Path) -> None:
        for name, text in self.new.items():
            (folder / name).parent.mkdir(exist_ok=True)
            head = "" if name.endswith(".py") else HEAD.format(name=Path(name).name)
            (folder / name).write_text(head + text)
        for name, anchor, text in self.before:
            path = folder / name
            old = path.read_text()
            assert old.count(anchor) >= 1, f"{name} has no {anchor!r}"
            path.write_text(old.replace(anchor, text + anchor, 1))


RECIPES = {
    "operator": Recipe(
        before=[
            (
                "src/import/families/Activation.cpp",
                '  table.add("hardtanh"',
                OPERATOR_ROW,
            ),
        ]
    ),
    "pass": Recipe(
        new={"src/import/passes/NameCalls.cpp": PASS_FILE},
        before=[
            (
                "src/import/passes/Passes.h",
                "/// Makes the passes of this room known",
                "std::unique_ptr<mlir::Pass> createNameCallsPass();\n\n",
            ),
            (
                "src/import/passes/Passes.h",
                "  mlir::registerPass(createVerifyLinalgPass);",
                "  mlir::registerPass(createNameCallsPass);\n",
            ),
            (
                "src/pipeline/Phases.cpp",
                "    functions.addPass(createNormalizeAtenPass());\n",
                "    functions.addPass(createNameCallsPass());\n",
            ),
        ],
    ),
    "runtime step": Recipe(
        before=[
            (
                "src/package/program.fbs",
                "table Record {",
                "table Clear { buffer:int; }\n",
            ),
            ("src/package/program.fbs", "Super, Branch", "Clear, "),
            (
                "src/package/verify/Actions.cpp",
                "constexpr StepKind steps[] = {",
                (
                    "void visitClear(const ActionUnion &action,\n"
                    "                const AccessVisitor &visit) {\n"
                    "  visit(action.AsClear()->buffer, true);\n"
                    "}\n\n"
                ),
            ),
            (
                "src/package/verify/Actions.cpp",
                '    {Action::Copy, "copy",',
                '    {Action::Clear, "clear", visitClear, nullptr},\n',
            ),
            (
                "src/runtime/plan/Steps.cpp",
                "struct StepRow {",
                (
                    "void clear(const Device &, const TensorView *tensors) {\n"
                    "  std::memset(tensors[0].data, 0,\n"
                    "              tensors[0].shape[0] * itemSize(tensors[0].dtype));\n"
                    "}\n\n"
                ),
            ),
            (
                "src/runtime/plan/Steps.cpp",
                "    {package::Action::Copy,",
                "    {package::Action::Clear, clear},\n",
            ),
            (
                "src/runtime/plan/Steps.cpp",
                "namespace anabranch::runtime {",
                "#include <cstring>\n\n",
            ),
            (
                "src/runtime/api/ConformanceTest.cpp",
                "INSTANTIATE_TEST_SUITE_P(",
                STEP_CASE,
            ),
        ]
    ),
    "plan": Recipe(
        new={
            "src/kernels/recipe/RecipePlan.h": PLAN_HEADER,
            "src/kernels/recipe/RecipePlan.cpp": PLAN_FILE,
        },
        before=[
            (
                "src/kernels/Plans.cpp",
                '#include "kernels/loops/LoopKernel.h"',
                '#include "kernels/recipe/RecipePlan.h"\n',
            ),
            ("src/kernels/Plans.cpp", "loopsRow}", "recipeRow, "),
            (
                "CMakeLists.txt",
                "  anabranch_wing(kernels/attention",
                "  anabranch_wing(kernels/recipe USES emit footprint)\n",
            ),
        ],
    ),
}

COMPAT = "torchair-compat"
NPU_RECIPE = Recipe(
    new={
        f"{COMPAT}/torchair/_impl/operators/activations/square_relu.py": NPU_FILE,
        f"{COMPAT}/tests/npu/test_square_relu.py": NPU_TEST,
    },
    before=[
        (
            f"{COMPAT}/tests/support/operator_calls.py",
            '    "npu_fast_gelu":',
            textwrap.indent(NPU_CALL, "    "),
        )
    ],
)

CALL = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = anabranch.aten "celu"(%a) {self = #anabranch.operand<0>, alpha = 2.0 : f64}
      : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def run(command: list[str], folder: Path, text: str = "") -> str:
    cache = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **cache},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built copy of the sources with the edits of all recipes. It has only the unit
    tests that a recipe edits: a new schema compiles all of them again."""
    folder = tmp_path_factory.mktemp("recipes")
    for path in tracked():
        if path.name.endswith("Test.cpp") and path.name != "ConformanceTest.cpp":
            continue
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for recipe in RECIPES.values():
        recipe.follow(folder)
    compilers = ["-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19"]
    options = [*compilers, "-DANABRANCH_PYTHON=OFF"]
    if PARSED_HEADERS.exists():
        options.append(f"-DANABRANCH_PARSED_HEADERS={PARSED_HEADERS}")
    run(["cmake", "-G", "Ninja", "-B", "build", *options], folder)
    run(["ninja", "-C", "build", "-j2", "anabranch-opt", "runtime-test"], folder)
    return folder


def opt(folder: Path, *arguments: str, text: str = CALL) -> str:
    return run(["build/bin/anabranch-opt", "-", *arguments], folder, text)


def test_operator(followed: Path) -> None:
    lowered = opt(followed, "--anabranch-lower-aten")
    assert "anabranch.aten" not in lowered
    assert "math.expm1" in lowered
    advice = run([sys.executable, "scripts/operators.py"], followed)
    assert "celu: PyTorch takes it apart" in advice
    assert "it is kept whole" in advice
    assert "| `celu` | activation |" in (followed / "docs/operators.md").read_text()
    whole = (followed / "python/anabranch/capture/whole_operators.py").read_text()
    assert '"celu",' in whole


def test_pass(followed: Path) -> None:
    """The pass runs alone, and in the compiler's phases."""
    test = followed / "test" / "import" / "name-calls.mlir"
    test.write_text(PASS_TEST)
    run([str(LIT), str(test)], followed)
    unknown = CALL.replace("celu", "unheard_of")
    assert 'recipe = "unheard_of"' in opt(followed, "--until=lower", text=unknown)


def test_runtime_step(followed: Path) -> None:
    done = run(["build/bin/runtime-test", "--gtest_filter=*RecipeClears*"], followed)
    assert "[  PASSED  ] 2 tests." in done


def test_plan(followed: Path) -> None:
    """The plan compiles, and the compiler tries it."""
    symbols = run(["nm", "-C", "build/bin/anabranch-opt"], followed)
    assert "recipeRow" in symbols


def test_operator_of_torch_npu(tmp_path: Path) -> None:
    """The operator is published, its arguments count, and it compiles. Anabranch is that of
    this checkout: the recipe changes nothing that is built."""
    for path in tracked(COMPAT, "scripts", "test/python/support"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    NPU_RECIPE.follow(tmp_path)
    run([sys.executable, "scripts/npu_operators.py"], tmp_path)
    page = (tmp_path / COMPAT / "OPERATORS.md").read_text()
    assert "| `npu_square_relu` | The square of relu(x), at most `limit`" in page
    command = [sys.executable, "-m", "pytest", "-q", "tests/npu"]
    done = run([*command, "-k", "square_relu or each_operator"], tmp_path / COMPAT)
    assert "5 passed" in done
    shown = (
        "import inspect, torch_npu; print(inspect.signature(torch_npu.npu_square_relu))"
    )
    signature = run([sys.executable, "-c", shown], tmp_path / COMPAT)
    assert "limit: 'float' = 36.0, *, y_dtype: 'Optional[int]' = None" in signature
