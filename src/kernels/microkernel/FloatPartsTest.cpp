//===- FloatPartsTest.cpp - floats against the sums of their parts --------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/FloatParts.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;
using namespace mlir;

namespace {

constexpr int64_t width = 16; ///< of a vector

/// A kernel each of whose tiles reads two vectors. The stores are missing.
constexpr const char *kernel = R"mlir(
func.func @split(%buffers: !llvm.ptr, %sizes: !llvm.ptr, %scratch: !llvm.ptr,
                 %tile: i64) -> i32 {
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %in = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %out = llvm.load %second : !llvm.ptr -> !llvm.ptr
  %from = llvm.getelementptr %in[%tile] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<32 x f32>
  %above = llvm.getelementptr %from[16] : (!llvm.ptr) -> !llvm.ptr, f32
  %low = llvm.load %from {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
  %high = llvm.load %above {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
  %to = llvm.getelementptr %out[%tile] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<PARTS x vector<16xf32>>
  %ok = arith.constant 0 : i32
  return %ok : i32
}
)mlir";

/// Splits floats, a multiple of two vectors, and returns the parts of each.
std::vector<std::vector<float>> split(const std::vector<float> &floats,
                                      int64_t parts, const char *targetName) {
  std::string text = kernel;
  text.replace(text.find("PARTS"), 5, std::to_string(parts));
  native::ParsedKernel parsed(text);
  EXPECT_TRUE(parsed);
  parsed.function().getContext()->loadDialect<vector::VectorDialect>();
  OpBuilder builder(parsed.function().front().getTerminator());
  native::CompileOptions options;
  options.target = llvm::cantFail(native::TargetInfo::get(targetName));
  LaneBuilder lanes(builder, builder.getUnknownLoc(), options.target.isa());
  SmallVector<LLVM::LoadOp> loads(
      parsed.function().front().getOps<LLVM::LoadOp>());
  LLVM::GEPOp to;
  for (auto address : parsed.function().front().getOps<LLVM::GEPOp>())
    to = address;
  for (auto [i, part] :
       llvm::enumerate(splitToParts(lanes, loads[2], loads[3], parts))) {
    Value at =
        builder.create<LLVM::GEPOp>(lanes.loc, to.getType(), part.getType(), to,
                                    ArrayRef<LLVM::GEPArg>{int32_t(i)});
    builder.create<LLVM::StoreOp>(lanes.loc, part, at, /*alignment=*/4);
  }
  auto library = llvm::cantFail(KernelLibrary::load(parsed.module(), options));
  if (!native::runs(options.target))
    return {};
  std::vector<float> in = floats;
  std::vector<uint16_t> out(floats.size() * parts);
  int64_t tiles = floats.size() / (2 * width);
  EXPECT_EQ(library.run("split", {in.data(), out.data()}, {}, 0, tiles), 0);
  std::vector<std::vector<float>> found(floats.size());
  for (size_t i = 0; i < floats.size(); ++i)
    for (int64_t part = 0; part < parts; ++part) {
      size_t tile = i / (2 * width), half = i / width % 2, word = i % width;
      uint32_t bits =
          uint32_t(out[((tile * parts + part) * width + word) * 2 + half])
          << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      found[i].push_back(value);
    }
  return found;
}

float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Floats of all exponents and both signs: random ones, and those at which a
/// part's rounding changes.
std::vector<float> floatsOfAllExponents() {
  std::vector<float> floats;
  std::mt19937 random(3);
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t sign : {0U, 0x80000000U}) {
      for (uint32_t digits :
           {0U, 1U, 0x7fU, 0x80U, 0x81U, 0x7fffU, 0x8000U, 0x8001U, 0x7f7fffU,
            0x7f8000U, 0x7fffffU, 0x400000U, 0x407fffU, 0x408000U})
        floats.push_back(fromBits(sign | exponent << 23 | (digits & 0x7fffff)));
      for (int i = 0; i < 50; ++i)
        floats.push_back(
            fromBits(sign | exponent << 23 | (random() & 0x7fffff)));
    }
  return floats;
}

/// No part of a finite number rounds to infinity below this.
constexpr double overflow = 0x1.ffp127;
/// Below it, digits are below the smallest bf16.
constexpr double smallestWhole = 0x1p-110;

void expectParts(float number, const std::vector<float> &parts) {
  SCOPED_TRACE(testing::Message() << std::hexfloat << number);
  if (!(std::fabs(number) < overflow)) {
    // Any product with the last part is NaN.
    EXPECT_TRUE(std::isnan(parts.back()));
    return;
  }
  bool isWhole = number == 0 || std::fabs(number) >= smallestWhole;
  double sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    if (i > 0 && isWhole)
      EXPECT_LE(std::fabs(parts[i]), 0x1p-8 * std::fabs(parts[i - 1]));
  }
  if (isWhole)
    EXPECT_EQ(sum, number);
  else
    EXPECT_NEAR(sum, number, 0x1p-133);
  if (parts.size() == 3 && isWhole)
    EXPECT_LE(std::fabs(parts[2]), 0x1p-17 * std::fabs(number));
}

class FloatPartsTest : public testing::TestWithParam<const char *> {};

TEST_P(FloatPartsTest, PartsOfF32SumUpToIt) {
  std::vector<float> floats = floatsOfAllExponents();
  auto parts = split(floats, 3, GetParam());
  if (parts.empty())
    GTEST_SKIP();
  for (size_t i = 0; i < floats.size() && !HasFailure(); ++i)
    expectParts(floats[i], parts[i]);
}

/// All there are.
TEST_P(FloatPartsTest, PartsOfF16SumUpToIt) {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    _Float16 number;
    std::memcpy(&number, &half, sizeof half);
    floats.push_back(static_cast<float>(number));
  }
  auto parts = split(floats, 2, GetParam());
  if (parts.empty())
    GTEST_SKIP();
  for (size_t i = 0; i < floats.size() && !HasFailure(); ++i) {
    expectParts(floats[i], parts[i]);
    // AMX takes subnormal parts for zero.
    for (float part : parts[i])
      EXPECT_NE(std::fpclassify(part), FP_SUBNORMAL) << floats[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FloatPartsTest,
                         testing::Values("portable", "aarch64", "neoverse-v1",
                                         "avx512bf16", "amx"));

} // namespace
