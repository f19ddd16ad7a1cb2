//===- ExpandBytesTest.cpp - arithmetic of quantised graphs ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/KernelLibrary.h"

#include "gtest/gtest.h"

#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

constexpr int64_t rows = 3;

/// The sums of products of `count` tensors of bytes with the words of a vector.
std::string textOf(int64_t count, int64_t columns, bool unsignedWeights) {
  std::string shape = std::to_string(rows) + "x" + std::to_string(columns);
  std::string arguments, names, types, maps, elements, bytes, byteTypes;
  for (int64_t i = 0; i < count; ++i) {
    std::string name = "x" + std::to_string(i);
    arguments += "%" + name + ": tensor<" + shape + "xi8>, ";
    names += "%" + name + ", ";
    types += "tensor<" + shape + "xi8>, ";
    maps += "#id, ";
    elements += "%b" + std::to_string(i) + ": i8, ";
    bytes += ", %b" + std::to_string(i);
    byteTypes += ", i8";
  }
  std::string words = "tensor<" + std::to_string(columns) + "xi32>";
  std::string result = "tensor<" + shape + "xi32>";
  return "#id = affine_map<(r, c) -> (r, c)>\n"
         "#column = affine_map<(r, c) -> (c)>\n"
         "func.func @dots(" +
         arguments + "%w: " + words + ") -> " + result +
         " attributes {anabranch.kernel} {\n"
         "  %empty = tensor.empty() : " +
         result +
         "\n"
         "  %r = linalg.generic {indexing_maps = [" +
         maps +
         "#column, #id], iterator_types = [\"parallel\", \"parallel\"]}\n"
         "      ins(" +
         names + "%w : " + types + words + ") outs(%empty : " + result +
         ") {\n  ^bb0(" + elements +
         "%word: i32, %o: i32):\n"
         "    %start = arith.constant 7 : i32\n"
         "    %s = anabranch.byte_dot %start, %word" +
         bytes + (unsignedWeights ? " {unsignedWeights}" : "") + " : i32" +
         byteTypes + "\n    linalg.yield %s : i32\n  } -> " + result +
         "\n  return %r : " + result + "\n}\n";
}

struct Numbers {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<uint32_t> words;
  std::vector<int32_t> result;

  Numbers(int64_t count, int64_t columns)
      : bytes(count, std::vector<uint8_t>(rows * columns)), words(columns),
        result(rows * columns) {
    std::mt19937 random(count * 100 + columns);
    for (auto &vector : bytes)
      for (uint8_t &byte : vector)
        byte = random();
    // Only bytes that multiply something may differ from zero.
    for (uint32_t &word : words)
      word = static_cast<uint32_t>(random()) >> (8 * (4 - count));
  }

  int32_t expected(int64_t at, bool unsignedWeights) const {
    int32_t sum = 7;
    for (size_t i = 0; i < bytes.size(); ++i) {
      auto weight = static_cast<uint8_t>(words[at % words.size()] >> (8 * i));
      uint8_t byte = bytes[i][at];
      sum += unsignedWeights ? static_cast<int8_t>(byte) * weight
                             : byte * static_cast<int8_t>(weight);
    }
    return sum;
  }
};

class ByteDotTest : public testing::TestWithParam<const char *> {};

TEST_P(ByteDotTest, EqualsSingleProducts) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(GetParam()));
  if (!target.runsHere())
    GTEST_SKIP() << "this processor lacks " << GetParam();
  for (int64_t count = 1; count <= 4; ++count)
    for (int64_t columns : {1, 7, 16, 40})
      for (bool unsignedWeights : {false, true}) {
        auto library = KernelLibrary::fromText(
            textOf(count, columns, unsignedWeights), target);
        ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
        Numbers numbers(count, columns);
        llvm::SmallVector<void *> buffers;
        for (auto &vector : numbers.bytes)
          buffers.push_back(vector.data());
        buffers.push_back(numbers.words.data());
        buffers.push_back(numbers.result.data());
        ASSERT_EQ(library->run("dots", buffers, {}), 0);
        for (int64_t at = 0; at < rows * columns; ++at)
          ASSERT_EQ(numbers.result[at], numbers.expected(at, unsignedWeights))
              << count << " bytes, " << columns << " columns, at " << at;
      }
}

INSTANTIATE_TEST_SUITE_P(Targets, ByteDotTest,
                         testing::Values("avx2", "avxvnni", "avx512",
                                         "avx512vnni", "host"));

} // namespace
