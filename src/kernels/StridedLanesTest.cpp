//===- StridedLanesTest.cpp - lanes that lie apart in memory --------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A kernel copies elements that lie at equal distances, rising or falling, or
// writes them so. Every type of memory is copied bit by bit, between guard
// pages.

#include "support/kernels/KernelLibrary.h"
#include "support/native/GuardedMemory.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

struct Element {
  const char *name;
  size_t bytes;
};
constexpr Element elements[] = {{"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2},
                                {"i64", 8}, {"i32", 4}, {"i8", 1},   {"i1", 1}};
constexpr int64_t rows = 5, columns = 37;
constexpr int64_t distances[] = {2, 5, 9, -3, -5};

/// y[i, j] = x[i, distance * j], counted from the end if the distance falls.
struct Apart {
  int64_t distance;
  int64_t width() const { return std::abs(distance) * (columns - 1) + 1; }
  int64_t at(int64_t column) const {
    return distance * column + (distance < 0 ? width() - 1 : 0);
  }
};

constexpr const char *kernel = R"mlir(
func.func @{0}(%x: tensor<{1}x{4}>) -> tensor<{2}x{4}> attributes {{anabranch.kernel} {{
  %e = tensor.empty() : tensor<{2}x{4}>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, {3})>, affine_map<(i, j) -> ({5})>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<{1}x{4}>) outs(%e : tensor<{2}x{4}>) {{
  ^bb0(%a: {4}, %o: {4}):
    linalg.yield %a : {4} } -> tensor<{2}x{4}>
  return %r : tensor<{2}x{4}>
}
)mlir";

std::string nameOf(Apart apart, const Element &element, bool turned) {
  return llvm::formatv("{0}{1}{2}_{3}", turned ? "turned" : "plain",
                       apart.distance < 0 ? "_m" : "_",
                       std::abs(apart.distance), element.name);
}

std::string textOf(Apart apart, const Element &element, bool turned) {
  std::string index =
      llvm::formatv("j * {0} + {1}", apart.distance, apart.at(0));
  std::string input = llvm::formatv("{0}x{1}", rows, apart.width());
  std::string result = turned ? llvm::formatv("{0}x{1}", columns, rows)
                              : llvm::formatv("{0}x{1}", rows, columns);
  return llvm::formatv(kernel, nameOf(apart, element, turned), input, result,
                       index, element.name, turned ? "j, i" : "i, j");
}

void check(const KernelLibrary &library, Apart apart, const Element &element,
           bool turned, native::GuardedMemory::Side side) {
  size_t bytes = element.bytes;
  native::GuardedMemory from(rows * apart.width() * bytes, side);
  native::GuardedMemory to(rows * columns * bytes, side);
  // No byte makes a NaN of the float that it is a part of.
  bool isBool = llvm::StringRef(element.name) == "i1";
  for (size_t i = 0; i < rows * apart.width() * bytes; ++i)
    from.data()[i] = static_cast<char>(i * 37 % 59 & (isBool ? 1 : 63));
  std::string name = nameOf(apart, element, turned);
  ASSERT_EQ(library.run(name, {from.data(), to.data()}, {}), 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      int64_t place = turned ? j * rows + i : i * columns + j;
      ASSERT_EQ(
          std::memcmp(to.data() + place * bytes,
                      from.data() + (i * apart.width() + apart.at(j)) * bytes,
                      bytes),
          0)
          << name << " at " << i << ", " << j;
    }
  EXPECT_TRUE(to.surroundingsAreIntact());
}

class StridedLanesTest : public testing::TestWithParam<const char *> {};

TEST_P(StridedLanesTest, AreCopiedBitByBit) {
  auto target = native::TargetInfo::get(GetParam());
  ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
  std::string text;
  for (const Element &element : elements)
    for (int64_t distance : distances)
      for (bool turned : {false, true})
        text += textOf({distance}, element, turned);
  auto library = KernelLibrary::fromText(text, *target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  if (!native::runs(*target))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  for (const Element &element : elements)
    for (int64_t distance : distances)
      for (bool turned : {false, true})
        for (auto side : {native::GuardedMemory::Side::Begin,
                          native::GuardedMemory::Side::End})
          check(*library, {distance}, element, turned, side);
}

INSTANTIATE_TEST_SUITE_P(Targets, StridedLanesTest,
                         testing::Values("portable", "aarch64", "neoverse-v1",
                                         "host", "avx2", "avx512"));

} // namespace
