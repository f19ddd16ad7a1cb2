//===- CodePairsTest.cpp - every float of 8 bits as half of a pair --------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/CodePairs.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace anabranch;
using namespace anabranch::kernels;
using namespace mlir;

namespace {

constexpr int64_t wordsOfVector = 16;

/// A kernel each of whose tiles reads a vector of codes. The stores are
/// missing.
constexpr const char *widenKernel = R"mlir(
func.func @widen(%buffers: !llvm.ptr, %sizes: !llvm.ptr, %scratch: !llvm.ptr,
                 %tile: i64) -> i32 {
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %in = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %out = llvm.load %second : !llvm.ptr -> !llvm.ptr
  %from = llvm.getelementptr %in[%tile] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<16 x i32>
  %bytes = llvm.load %from {alignment = 1 : i64} : !llvm.ptr -> vector<16xi32>
  %to = llvm.getelementptr %out[%tile] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<2 x vector<16xf32>>
  %ok = arith.constant 0 : i32
  return %ok : i32
}
)mlir";

/// The bf16 of all codes, as [tile][pair][word][half]; none if this processor
/// cannot run the kernel.
std::vector<uint16_t> widened(FloatType (*type)(MLIRContext *),
                              const char *targetName) {
  native::ParsedKernel parsed(widenKernel);
  EXPECT_TRUE(parsed);
  MLIRContext *context = parsed.function().getContext();
  context->loadDialect<vector::VectorDialect>();
  OpBuilder builder(parsed.function().front().getTerminator());
  native::CompileOptions options;
  options.target = llvm::cantFail(native::TargetInfo::get(targetName));
  LaneBuilder lanes(builder, builder.getUnknownLoc(), options.target.isa());
  EXPECT_TRUE(CodePairs::exist(lanes.isa, type(context), wordsOfVector));
  LLVM::LoadOp bytes;
  for (auto load : parsed.function().front().getOps<LLVM::LoadOp>())
    bytes = load;
  LLVM::GEPOp to;
  for (auto address : parsed.function().front().getOps<LLVM::GEPOp>())
    to = address;
  for (auto [i, pairs] :
       llvm::enumerate(CodePairs(lanes, type(context)).of(bytes))) {
    Value at =
        builder.create<LLVM::GEPOp>(lanes.loc, to.getType(), pairs.getType(),
                                    to, ArrayRef<LLVM::GEPArg>{int32_t(i)});
    builder.create<LLVM::StoreOp>(lanes.loc, pairs, at, /*alignment=*/1);
  }
  auto library = llvm::cantFail(KernelLibrary::load(parsed.module(), options));
  if (!native::runs(options.target))
    return {};
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint8_t>(i);
  std::vector<uint16_t> found(codes.size());
  int64_t tiles = codes.size() / (4 * wordsOfVector);
  EXPECT_EQ(library.run("widen", {codes.data(), found.data()}, {}, 0, tiles),
            0);
  return found;
}

float ofHalf(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

class CodePairsTest : public testing::TestWithParam<const char *> {
protected:
  void expectAll(FloatType (*type)(MLIRContext *)) {
    std::vector<uint16_t> found = widened(type, GetParam());
    if (found.empty())
      GTEST_SKIP();
    MLIRContext context;
    const llvm::fltSemantics &format = type(&context).getFloatSemantics();
    for (size_t code = 0; code < 256; ++code) {
      float wanted =
          llvm::APFloat(format, llvm::APInt(8, code)).convertToFloat();
      size_t tile = code / 64, word = code / 4 % 16, depth = code % 4;
      float value =
          ofHalf(found[((tile * 2 + depth / 2) * wordsOfVector + word) * 2 +
                       depth % 2]);
      if (std::isnan(wanted))
        EXPECT_TRUE(std::isnan(value)) << code;
      else
        EXPECT_EQ(llvm::bit_cast<uint32_t>(value),
                  llvm::bit_cast<uint32_t>(wanted))
            << code;
    }
  }
};

TEST_P(CodePairsTest, WidensE4M3FN) {
  expectAll([](MLIRContext *context) -> FloatType {
    return Float8E4M3FNType::get(context);
  });
}

TEST_P(CodePairsTest, WidensE5M2) {
  expectAll([](MLIRContext *context) -> FloatType {
    return Float8E5M2Type::get(context);
  });
}

INSTANTIATE_TEST_SUITE_P(Targets, CodePairsTest,
                         testing::Values("icelake-server", "znver4",
                                         "sapphirerapids"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
