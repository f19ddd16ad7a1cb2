//===- RegionWriteTest.cpp - updates of a part of a tensor ----------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A region that is updated in place may begin and end anywhere, also in the
// middle of a vector. Every shape runs between guard pages, so that an access
// through an inactive lane's address ends the test.

#include "support/kernels/KernelLibrary.h"
#include "support/native/GuardedMemory.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

using Dims = std::vector<int64_t>;

/// Doubles x[begin : begin + length : step] along the last dimension.
struct Region {
  Dims shape;
  int64_t begin, length, step;
};

std::string joined(llvm::ArrayRef<int64_t> numbers, const char *separator) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : separator) + std::to_string(number);
  return text;
}

/// The shape with another size of its last dimension.
Dims withLast(Dims dims, int64_t last) {
  dims.back() = last;
  return dims;
}

std::string kernelText(const Region &region, const std::string &name,
                       const std::string &element) {
  size_t rank = region.shape.size();
  Dims part = withLast(region.shape, region.length);
  std::string whole = "tensor<" + joined(region.shape, "x") + "x" + element;
  std::string slice = "tensor<" + joined(part, "x") + "x" + element;
  std::string where = "[" + joined(withLast(Dims(rank, 0), region.begin), ",") +
                      "] [" + joined(part, ",") + "] [" +
                      joined(withLast(Dims(rank, 1), region.step), ",") + "]";
  std::string dims, loops;
  for (size_t i = 0; i < rank; ++i) {
    dims += (i ? ", d" : "d") + std::to_string(i);
    loops += i ? ", \"parallel\"" : "\"parallel\"";
  }
  std::string map = "affine_map<(" + dims + ") -> (" + dims + ")>";
  std::string add = element[0] == 'f' ? "arith.addf" : "arith.addi";
  return "func.func @" + name + "(%x: " + whole + ">) -> (" + whole +
         "> {anabranch.in_place = 0}) attributes {anabranch.kernel} {\n" +
         "  %p = tensor.extract_slice %x" + where + " : " + whole + "> to " +
         slice + ">\n  %e = tensor.empty() : " + slice +
         ">\n  %d = linalg.generic {indexing_maps = [" + map + ", " + map +
         "], iterator_types = [" + loops + "]} ins(%p : " + slice +
         ">) outs(%e : " + slice + ">) {\n  ^bb0(%in: " + element +
         ", %out: " + element + "):\n    %y = " + add +
         " %in, %in : " + element + "\n    linalg.yield %y : " + element +
         "\n  } -> " + slice + ">\n  %r = tensor.insert_slice %d into %x" +
         where + " : " + slice + "> into " + whole +
         ">\n  return %r : " + whole + ">\n}\n";
}

std::vector<Region> regions() {
  std::vector<Region> all;
  for (const Dims &outer :
       {Dims{}, Dims{1}, Dims{1, 1}, Dims{1, 3}, Dims{3, 1}})
    for (int64_t size : {7, 64, 100})
      for (auto [begin, end, step] :
           {std::tuple<int64_t, int64_t, int64_t>{0, 5, 1},
            {1, 7, 1},
            {2, 7, 2},
            {20, 40, 1},
            {17, 64, 1},
            {63, 64, 1},
            {5, 60, 3},
            {80, 99, 1},
            {33, 100, 1}})
        if (end <= size) {
          Dims shape = outer;
          shape.push_back(size);
          all.push_back({shape, begin, (end - begin + step - 1) / step, step});
        }
  return all;
}

template <typename Element>
void runRegion(const KernelLibrary &library, const std::string &name,
               const Region &region, native::GuardedMemory::Side side) {
  int64_t count = 1, size = region.shape.back();
  for (int64_t dim : region.shape)
    count *= dim;
  native::GuardedMemory memory(count * sizeof(Element), side);
  auto *values = reinterpret_cast<Element *>(memory.data());
  for (int64_t i = 0; i < count; ++i)
    values[i] = Element(i % 50 + 1);
  ASSERT_EQ(library.run(name, {memory.data()}, {}), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = i % size - region.begin;
    bool inside =
        at >= 0 && at % region.step == 0 && at / region.step < region.length;
    ASSERT_EQ(values[i], Element((inside ? 2 : 1) * (i % 50 + 1)))
        << "element " << i << " of " << joined(region.shape, "x") << " from "
        << region.begin << " on " << region.length << " by " << region.step;
  }
  EXPECT_TRUE(memory.surroundingsAreIntact());
}

template <typename Element>
void runRegions(const std::string &element, const native::TargetInfo &target) {
  std::string text;
  std::vector<Region> all = regions();
  for (auto [i, region] : llvm::enumerate(all))
    text += kernelText(region, "k" + std::to_string(i), element);
  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  for (auto [i, region] : llvm::enumerate(all))
    for (auto side :
         {native::GuardedMemory::Side::Begin, native::GuardedMemory::Side::End})
      runRegion<Element>(*library, "k" + std::to_string(i), region, side);
}

class RegionWriteTest : public testing::TestWithParam<const char *> {};

TEST_P(RegionWriteTest, TouchesTheRegionAlone) {
  auto target = native::TargetInfo::get(GetParam());
  ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
  if (!native::runs(*target))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  runRegions<float>("f32", *target);
  runRegions<int8_t>("i8", *target);
}

INSTANTIATE_TEST_SUITE_P(Targets, RegionWriteTest,
                         testing::Values("portable", "aarch64", "neoverse-v1",
                                         "host", "avx2", "avx512"));

} // namespace
