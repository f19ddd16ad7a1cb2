//===- GroupedTest.cpp - products of gathered weights against loops -------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/CompiledCase.h"
#include "support/native/GuardedMemory.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>
#include <numeric>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// A product in which each row multiplies the weight at its place.
struct Case {
  const char *name;
  std::vector<int64_t> places; ///< of each row, among five weights
  int64_t columns, depth;
  bool depthLast;   ///< the weights are [columns, depth], not the other way
  const char *type; ///< of both operands
  bool dynamic;     ///< whether the number of rows is symbolic
};

constexpr int64_t weights = 5;

const std::vector<int64_t> runs = {0, 0, 0, 0, 0, 3, 3, 1, 4, 4, 4, 4, 4,
                                   4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 0};
const std::vector<int64_t> many = [] {
  std::vector<int64_t> places(300, 1);
  std::fill(places.begin() + 100, places.begin() + 170, 3);
  places.back() = 4;
  return places;
}();

const Case cases[] = {
    {"one", {3}, 64, 64, true, "f32", false},
    {"two", {4, 0}, 70, 33, true, "f32", false},
    {"two_of_columns", {4, 0}, 128, 40, false, "f32", false},
    {"runs", runs, 70, 50, true, "f32", false},
    {"runs_of_columns", runs, 128, 50, false, "f32", false},
    {"runs_of_odd_columns", runs, 70, 50, false, "f32", false},
    {"many", many, 70, 600, true, "f32", false},
    {"many_of_columns", many, 64, 600, false, "f32", false},
    {"dynamic", runs, 70, 50, true, "f32", true},
    {"dynamic_columns", runs, 128, 50, false, "f32", true},
    {"bf16_one", {3}, 64, 64, true, "bf16", false},
    {"bf16_runs", runs, 70, 50, true, "bf16", false},
    {"bf16_runs_of_columns", runs, 128, 50, false, "bf16", false},
    {"bf16_many", many, 70, 66, true, "bf16", false},
    {"bf16_dynamic", runs, 70, 33, true, "bf16", true},
};

std::string textOf(const Case &c) {
  std::string rows = c.dynamic ? "?" : std::to_string(c.places.size());
  std::string type = c.type, dim = c.dynamic ? "(%s)" : "()";
  int64_t first = c.depthLast ? c.columns : c.depth;
  int64_t second = c.depthLast ? c.depth : c.columns;
  std::string widen = type == "f32" ? ""
                                    : "%wa = arith.extf %a : bf16 to f32\n"
                                      "%wb = arith.extf %b : bf16 to f32\n";
  std::string prefix = type == "f32" ? "" : "w";
  return llvm::formatv(R"mlir(
func.func @experts(%x: tensor<{0}x1x{1}x{2}>, %w: tensor<{3}x{4}x{5}x{2}>, %i: tensor<{0}xi64>) -> tensor<{0}x1x{6}xf32> attributes {{anabranch.kernel} {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %count = arith.constant {3} : index
  %s = tensor.dim %x, %c0 : tensor<{0}x1x{1}x{2}>
  %e = tensor.empty{7} : tensor<{0}x{4}x{5}x{2}>
  %g = linalg.generic {{indexing_maps = [affine_map<(s, i, j) -> (s)>, affine_map<(s, i, j) -> (s, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i : tensor<{0}xi64>) outs(%e : tensor<{0}x{4}x{5}x{2}>) {{
  ^bb0(%p: i64, %o: {2}):
    %u = linalg.index 1 : index
    %v = linalg.index 2 : index
    %at = arith.index_cast %p : i64 to index
    %ok = arith.cmpi ult, %at, %count : index
    anabranch.check %ok, 1
    %safe = arith.select %ok, %at, %c0 : index
    %r = tensor.extract %w[%safe, %u, %v] : tensor<{3}x{4}x{5}x{2}>
    linalg.yield %r : {2} } -> tensor<{0}x{4}x{5}x{2}>
  %f = tensor.empty{7} : tensor<{0}x1x{6}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<{0}x1x{6}xf32>) -> tensor<{0}x1x{6}xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(s, m, n, k) -> (s, m, k)>, affine_map<(s, m, n, k) -> ({8})>, affine_map<(s, m, n, k) -> (s, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %g : tensor<{0}x1x{1}x{2}>, tensor<{0}x{4}x{5}x{2}>) outs(%init : tensor<{0}x1x{6}xf32>) {{
  ^bb0(%a: {2}, %b: {2}, %c: f32):
    {9}
    %t = arith.mulf %{10}a, %{10}b : f32
    %r = arith.addf %c, %t : f32
    linalg.yield %r : f32 } -> tensor<{0}x1x{6}xf32>
  return %y : tensor<{0}x1x{6}xf32>
}
)mlir",
                       rows, c.depth, type, weights, first, second, c.columns,
                       dim, c.depthLast ? "s, n, k" : "s, k, n", widen, prefix)
      .str();
}

/// Small integers. They are exact in bf16, and so are their sums of products.
float number(size_t i) { return float(int(i * 37 % 17) - 8); }

struct GroupedNumbers {
  std::vector<float> values;
  std::unique_ptr<native::GuardedMemory>
      memory; ///< a page after it is unmapped

  GroupedNumbers(size_t count, const std::string &type) {
    std::vector<char> bytes;
    for (size_t i = 0; i < count; ++i) {
      float value = number(i);
      values.push_back(value);
      const char *raw = reinterpret_cast<const char *>(&value);
      bytes.insert(bytes.end(), raw + (type == "bf16" ? 2 : 0), raw + 4);
    }
    memory = std::make_unique<native::GuardedMemory>(
        bytes.size(), native::GuardedMemory::Side::End);
    std::memcpy(memory->data(), bytes.data(), bytes.size());
  }
};

class GroupedTest : public testing::TestWithParam<TargetAndCase<Case>> {};

TEST_P(GroupedTest, MultipliesTheWeightAtThePlaceOfEachRow) {
  auto [targetName, c] = GetParam();
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(targetName));
  auto library = compileProduct(textOf(c), target);
  if (!library || !native::runs(target))
    return;
  int64_t rows = c.places.size();
  GroupedNumbers x(rows * c.depth, c.type),
      w(weights * c.columns * c.depth, c.type);
  std::vector<float> y(rows * c.columns, -1);
  std::vector<int64_t> places = c.places, sizes;
  if (c.dynamic)
    sizes = {rows, rows, rows};
  std::vector<void *> buffers = {x.memory->data(), w.memory->data(),
                                 places.data(), y.data()};
  ASSERT_EQ(library->run("experts", buffers, sizes), 0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < c.columns; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < c.depth; ++k) {
        int64_t at = c.depthLast ? n * c.depth + k : k * c.columns + n;
        sum += double(x.values[row * c.depth + k]) *
               w.values[places[row] * c.columns * c.depth + at];
      }
      ASSERT_EQ(y[row * c.columns + n], sum) << row << ", " << n;
    }
  places[rows / 2] = weights;
  EXPECT_EQ(library->run("experts", buffers, sizes),
            ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE);
  places[rows / 2] = -1;
  EXPECT_EQ(library->run("experts", buffers, sizes),
            ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE);
}

INSTANTIATE_TEST_SUITE_P(Targets, GroupedTest,
                         testing::Combine(testing::Values("portable", "aarch64",
                                                          "neoverse-v1", "host",
                                                          "avx2", "avx512"),
                                          testing::ValuesIn(cases)),
                         caseName<Case>);

} // namespace
