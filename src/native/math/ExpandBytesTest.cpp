//===- ExpandBytesTest.cpp - arithmetic of quantised graphs ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/KernelLibrary.h"

#include "gtest/gtest.h"

#include <random>

using namespace anabranch;
using namespace anabranch::native;

namespace {

/// `lanes` sums of the products of `count` vectors of bytes with words. One
/// lane is a scalar.
std::string textOf(int64_t count, int64_t lanes, bool unsignedWeights) {
  auto typeOf = [&](const std::string &element) {
    return lanes == 1 ? element
                      : "vector<" + std::to_string(lanes) + "x" + element + ">";
  };
  std::string sums = typeOf("i32"), bytes = typeOf("i8");
  std::string loads, names, types;
  auto load = [&](const std::string &name, int64_t buffer,
                  const std::string &type) {
    loads += "    %a" + name + " = llvm.getelementptr %buffers[" +
             std::to_string(buffer) +
             "] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
             "    %p" +
             name + " = llvm.load %a" + name + " : !llvm.ptr -> !llvm.ptr\n";
    if (!type.empty())
      loads += "    %" + name + " = llvm.load %p" + name +
               " {alignment = 1 : i64} : !llvm.ptr -> " + type + "\n";
  };
  for (int64_t i = 0; i < count; ++i) {
    load("b" + std::to_string(i), i, bytes);
    names += ", %b" + std::to_string(i);
    types += ", " + bytes;
  }
  load("w", count, sums);
  load("out", count + 1, "");
  return "func.func @dots(%buffers: !llvm.ptr, %sizes: !llvm.ptr,\n"
         "                %scratch: !llvm.ptr, %tile: i64) -> i32 {\n" +
         loads + "    %start = arith.constant " +
         (lanes == 1 ? "7" : "dense<7>") + " : " + sums +
         "\n    %s = anabranch.byte_dot %start, %w" + names +
         (unsignedWeights ? " {unsignedWeights}" : "") + " : " + sums + types +
         "\n    llvm.store %s, %pout {alignment = 1 : i64} : " + sums +
         ", !llvm.ptr\n"
         "    %ok = arith.constant 0 : i32\n"
         "    return %ok : i32\n  }\n";
}

struct Numbers {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<uint32_t> words;
  std::vector<int32_t> result;

  Numbers(int64_t count, int64_t lanes)
      : bytes(count, std::vector<uint8_t>(lanes)), words(lanes), result(lanes) {
    std::mt19937 random(count * 100 + lanes);
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
      auto weight = static_cast<uint8_t>(words[at] >> (8 * i));
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
  if (!runs(target))
    GTEST_SKIP() << "this processor lacks " << GetParam();
  for (int64_t count = 1; count <= 4; ++count)
    for (int64_t lanes : {1, 4, 8, 16})
      for (bool unsignedWeights : {false, true}) {
        auto library = KernelLibrary::fromText(
            textOf(count, lanes, unsignedWeights), target);
        ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
        Numbers numbers(count, lanes);
        llvm::SmallVector<void *> buffers;
        for (auto &vector : numbers.bytes)
          buffers.push_back(vector.data());
        buffers.push_back(numbers.words.data());
        buffers.push_back(numbers.result.data());
        ASSERT_EQ(library->run("dots", buffers, {}), 0);
        for (int64_t at = 0; at < lanes; ++at)
          ASSERT_EQ(numbers.result[at], numbers.expected(at, unsignedWeights))
              << count << " bytes, " << lanes << " lanes, at " << at;
      }
}

INSTANTIATE_TEST_SUITE_P(Targets, ByteDotTest,
                         testing::Values("portable", "avx2", "avxvnni",
                                         "avx512", "avx512vnni", "host",
                                         "aarch64", "neoverse-v1"));

} // namespace
