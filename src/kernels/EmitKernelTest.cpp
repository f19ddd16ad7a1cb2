//===- EmitKernelTest.cpp - kernels on tensors, run over many shapes ------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/EmitKernel.h"

#include "support/kernels/KernelLibrary.h"
#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

constexpr const char *softmax = R"mlir(
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @softmax(%x: tensor<?x?xf32>) -> tensor<?x?xf32> attributes {anabranch.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %z = arith.constant 0.0 : f32
  %e1 = tensor.empty(%m) : tensor<?xf32>
  %e2 = tensor.empty(%m, %n) : tensor<?x?xf32>
  %i1 = linalg.fill ins(%ninf : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %i2 = linalg.fill ins(%z : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %max = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf32>) outs(%i1 : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32 } -> tensor<?xf32>
  %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %max : tensor<?x?xf32>, tensor<?xf32>) outs(%e2 : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %r = math.exp %s : f32
    linalg.yield %r : f32 } -> tensor<?x?xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<?x?xf32>) outs(%i2 : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32 } -> tensor<?xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%e2 : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32 } -> tensor<?x?xf32>
  return %d : tensor<?x?xf32>
}
)mlir";

constexpr const char *scatter = R"mlir(
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @sc(%x: tensor<?x8xf32>, %i: tensor<?xi64>, %v: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {anabranch.kernel} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %r = anabranch.scatter %v into %x {
  ^bb0(%p: index, %q: index, %cur: f32, %u: f32):
    %j = tensor.extract %i[%p] : tensor<?xi64>
    %k = arith.index_cast %j : i64 to index
    %ok = arith.cmpi ult, %k, %n : index
    anabranch.check %ok, 1
    %s = arith.select %ok, %k, %c0 : index
    %new = arith.addf %cur, %u : f32
    anabranch.yield %s, %q, %new : index, index, f32
  } : tensor<?x8xf32> into tensor<?x8xf32> -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
)mlir";

/// Writes one row of a cache in place.
constexpr const char *update = R"mlir(
func.func @kv(%c: tensor<4x10x8xf32>, %v: tensor<4x1x8xf32>, %at: index) -> (tensor<4x10x8xf32> {anabranch.in_place = 0}) attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<4x1x8xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(a,b,c) -> (a,b,c)>, affine_map<(a,b,c) -> (a,b,c)>], iterator_types = ["parallel","parallel","parallel"]} ins(%v : tensor<4x1x8xf32>) outs(%e : tensor<4x1x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32 } -> tensor<4x1x8xf32>
  %r = tensor.insert_slice %d into %c[0, %at, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x10x8xf32>
  return %r : tensor<4x10x8xf32>
}
)mlir";

/// Doubles the halves of a tensor, as integers, and reads their bits as bf16.
constexpr const char *halves = R"mlir(
#same = affine_map<(i, j) -> (i, j)>
func.func @halves(%x: tensor<?x?xf16>) -> (tensor<?x?xf16>, tensor<?x?xi64>, tensor<?x?xf32>, tensor<?x?xbf16>) attributes {anabranch.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf16>
  %n = tensor.dim %x, %c1 : tensor<?x?xf16>
  %e0 = tensor.empty(%m, %n) : tensor<?x?xf16>
  %e1 = tensor.empty(%m, %n) : tensor<?x?xi64>
  %e2 = tensor.empty(%m, %n) : tensor<?x?xf32>
  %e3 = tensor.empty(%m, %n) : tensor<?x?xbf16>
  %two = arith.constant 2.0 : f32
  %r:4 = linalg.generic {indexing_maps = [#same, #same, #same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf16>) outs(%e0, %e1, %e2, %e3 : tensor<?x?xf16>, tensor<?x?xi64>, tensor<?x?xf32>, tensor<?x?xbf16>) {
  ^bb0(%a: f16, %o0: f16, %o1: i64, %o2: f32, %o3: bf16):
    %wide = arith.extf %a : f16 to f32
    %double = arith.mulf %wide, %two : f32
    %narrow = arith.truncf %double : f32 to f16
    %whole = arith.fptosi %wide : f32 to i64
    %other = arith.bitcast %a : f16 to bf16
    %number = arith.extf %other : bf16 to f32
    linalg.yield %narrow, %whole, %number, %other : f16, i64, f32, bf16
  } -> (tensor<?x?xf16>, tensor<?x?xi64>, tensor<?x?xf32>, tensor<?x?xbf16>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<?x?xf16>, tensor<?x?xi64>, tensor<?x?xf32>, tensor<?x?xbf16>
}
)mlir";

class EmitKernelTest : public testing::TestWithParam<const char *> {
protected:
  /// The compiled kernels, or nothing if this machine cannot run them.
  std::optional<KernelLibrary> compile(const char *text) {
    native::TargetInfo target =
        llvm::cantFail(native::TargetInfo::get(GetParam()));
    auto library = KernelLibrary::fromText(text, target);
    if (!library) {
      ADD_FAILURE() << llvm::toString(library.takeError());
      return std::nullopt;
    }
    if (!native::runs(target))
      return std::nullopt;
    return std::move(*library);
  }
};

TEST_P(EmitKernelTest, RowsOfAnyLength) {
  auto library = compile(softmax);
  if (!library)
    return;
  for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 5}, {1, 1}, {3, 7}, {5, 16}, {4, 64}, {9, 100}, {33, 129}}) {
    std::vector<float> x(rows * columns), y(rows * columns, -1);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::sin(float(i)) * 3;
    ASSERT_EQ(library->run("softmax", {x.data(), y.data()},
                           {rows, columns, rows, columns}),
              0);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < columns; ++i)
        sum += std::exp(double(x[row * columns + i]));
      for (int64_t i = 0; i < columns; ++i)
        EXPECT_NEAR(y[row * columns + i],
                    std::exp(double(x[row * columns + i])) / sum, 1e-6)
            << rows << "x" << columns;
    }
  }
}

TEST_P(EmitKernelTest, ScatterAccumulatesAndChecks) {
  auto library = compile(scatter);
  if (!library)
    return;
  std::vector<float> x(5 * 8, 1), updates(4 * 8, 2), y(5 * 8);
  std::vector<int64_t> rows = {1, 4, 1, 0};
  std::vector<void *> buffers = {x.data(), rows.data(), updates.data(),
                                 y.data()};
  ASSERT_EQ(library->run("sc", buffers, {5, 4, 4, 5}), 0);
  std::vector<float> expected = {3, 5, 1, 1, 3};
  for (int row = 0; row < 5; ++row)
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(y[row * 8 + i], expected[row]);
  rows[2] = 5;
  EXPECT_EQ(library->run("sc", buffers, {5, 4, 4, 5}),
            ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE);
}

TEST_P(EmitKernelTest, TilesOfAScatterHaveRangesOfRows) {
  std::string source = scatter;
  for (size_t at; (at = source.find("x8xf32")) != std::string::npos;)
    source.replace(at, 6, "x96xf32");
  auto library = compile(source.c_str());
  if (!library)
    return;
  constexpr int64_t rows = 200, columns = 96, count = 900;
  std::vector<float> x(rows * columns, 1), updates(count * columns), y(x);
  std::vector<int64_t> targets(count);
  for (int64_t i = 0; i < count; ++i) {
    targets[i] = i * 37 % rows * (i % 3) / 2;
    for (int64_t column = 0; column < columns; ++column)
      updates[i * columns + column] = float(i) / 3 + float(column);
  }
  std::vector<float> expected(x);
  for (int64_t i = 0; i < count * columns; ++i)
    expected[targets[i / columns] * columns + i % columns] += updates[i];
  std::vector<void *> buffers = {x.data(), targets.data(), updates.data(),
                                 y.data()};
  ASSERT_GT(library->plan("sc", {rows, count, count, rows}).tiles, 1);
  ASSERT_EQ(library->run("sc", buffers, {rows, count, count, rows}), 0);
  EXPECT_EQ(y, expected);
  targets[count - 1] = rows;
  EXPECT_EQ(library->run("sc", buffers, {rows, count, count, rows}),
            ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE);
}

TEST_P(EmitKernelTest, InPlaceUpdateTouchesItsPartOnly) {
  auto library = compile(update);
  if (!library)
    return;
  std::vector<float> cache(4 * 10 * 8, 1), row(4 * 8, 3);
  ASSERT_EQ(library->run("kv", {cache.data(), row.data(), cache.data()}, {3}),
            0);
  for (int i = 0; i < 4 * 10 * 8; ++i)
    EXPECT_EQ(cache[i], i / 8 % 10 == 3 ? 6 : 1);
}

TEST_P(EmitKernelTest, HalvesAreComputedAndReadAsBits) {
  auto library = compile(halves);
  if (!library)
    return;
  constexpr int64_t rows = 3, columns = 37, count = rows * columns;
  std::vector<_Float16> x(count), doubled(count);
  std::vector<int64_t> whole(count);
  std::vector<float> numbers(count);
  std::vector<uint16_t> bits(count);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<_Float16>(float(i - 50) * 1.25f);
  ASSERT_EQ(library->run("halves",
                         {x.data(), doubled.data(), whole.data(),
                          numbers.data(), bits.data()},
                         {rows, columns, rows, columns, rows, columns, rows,
                          columns, rows, columns}),
            0);
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(float(doubled[i]), 2 * float(x[i]));
    EXPECT_EQ(whole[i], static_cast<int64_t>(float(x[i])));
    EXPECT_EQ(bits[i], llvm::bit_cast<uint16_t>(x[i]));
    EXPECT_EQ(numbers[i], llvm::bit_cast<float>(uint32_t(bits[i]) << 16));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EmitKernelTest,
                         testing::Values("portable", "aarch64", "neoverse-v1",
                                         "host", "avx2", "avx512",
                                         "avx512fp16"));

} // namespace
