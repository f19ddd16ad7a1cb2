//===- X86IsaTest.cpp - what targets' features allow ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "mlir/IR/MLIRContext.h"
#include "native/target/Target.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace anabranch::native;

namespace {

struct Expected {
  const char *target;
  int64_t bytes, registers;
  bool mixedDot, signedDot; ///< of bytes, on whole vectors
  bool rounds, hasTiles;
};

const Expected expected[] = {
    {"portable", 16, 16, false, false, false, false},
    {"avx2", 32, 16, false, false, false, false},
    {"avxvnni", 32, 16, true, false, false, false},
    {"avxvnniint8", 32, 16, true, true, false, false},
    {"avx512", 64, 32, false, false, false, false},
    {"avx512vnni", 64, 32, true, false, false, false},
    {"avx512bf16", 64, 32, false, false, true, false},
    {"avx512fp16", 64, 32, true, false, true, false},
    {"amx", 64, 32, true, false, true, true},
    {"icelake-server", 64, 32, true, false, false, false},
    {"znver4", 64, 32, true, false, true, false},
};

class IsaTest : public testing::TestWithParam<Expected> {};

TEST_P(IsaTest, HasWhatTheFeaturesSay) {
  using Signs = Isa::ByteSigns;
  const Expected &e = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(e.target));
  const Isa &isa = target.isa();
  EXPECT_EQ(isa.vectorBytes(), e.bytes);
  EXPECT_EQ(isa.vectorRegisters(), e.registers);
  EXPECT_EQ(isa.hasByteDot(Signs::Mixed, target.lanes(32)), e.mixedDot);
  EXPECT_EQ(isa.hasByteDot(Signs::Signed, target.lanes(32)), e.signedDot);
  EXPECT_EQ(isa.roundsToBF16(), e.rounds);
  EXPECT_EQ(isa.tiles() != nullptr, e.hasTiles);
  EXPECT_EQ(isa.has(Multiply::TileBF16), e.hasTiles);
  EXPECT_EQ(isa.fusesMultiplyAdd(), e.bytes > 16);
  EXPECT_EQ(isa.convertsF16(), e.bytes > 16);
  EXPECT_EQ(isa.hasGather(32), e.bytes > 16);
  EXPECT_FALSE(isa.hasGather(16));
  EXPECT_EQ(isa.loadsAtDistance(), e.bytes > 16);
}

TEST_P(IsaTest, HasTablesInWideRegisters) {
  mlir::MLIRContext context;
  mlir::Builder b(&context);
  auto vector = [&](int64_t lanes, mlir::Type element) {
    return mlir::VectorType::get({lanes}, element);
  };
  bool isWide = GetParam().bytes == 64;
  TargetInfo target = llvm::cantFail(TargetInfo::get(GetParam().target));
  const Isa &isa = target.isa();
  EXPECT_EQ(isa.hasLookup(vector(16, b.getF32Type())), isWide);
  EXPECT_EQ(isa.hasLookup(vector(48, b.getF32Type())), isWide);
  EXPECT_EQ(isa.hasLookup(vector(32, b.getI16Type())), isWide);
  bool hasBytes = target.features.find("+avx512vbmi") != std::string::npos;
  EXPECT_EQ(isa.hasLookup(vector(64, b.getI8Type())), hasBytes);
  EXPECT_EQ(isa.hasScale(vector(16, b.getF32Type())), isWide);
  EXPECT_FALSE(isa.hasLookup(vector(8, b.getF32Type())));
  EXPECT_FALSE(isa.hasLookup(vector(16, b.getF64Type())));
  EXPECT_FALSE(isa.hasScale(b.getF32Type()));
}

INSTANTIATE_TEST_SUITE_P(Targets, IsaTest, testing::ValuesIn(expected),
                         [](const testing::TestParamInfo<Expected> &info) {
                           std::string name = info.param.target;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
