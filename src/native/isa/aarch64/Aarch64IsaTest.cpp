//===- Aarch64IsaTest.cpp - what targets' features allow ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/target/Target.h"

#include "gtest/gtest.h"

using namespace anabranch::native;

namespace {

struct Expected {
  const char *target;
  bool mixedDot, bf16; ///< products of bytes of either sign; of bf16
};

class Aarch64IsaTest : public testing::TestWithParam<Expected> {};

TEST_P(Aarch64IsaTest, HasWhatTheFeaturesSay) {
  using Signs = Isa::ByteSigns;
  const Expected &e = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(e.target));
  const Isa &isa = target.isa();
  EXPECT_EQ(isa.vectorBytes(), 16);
  EXPECT_EQ(isa.vectorRegisters(), 32);
  EXPECT_TRUE(isa.hasByteDot(Signs::Signed, 4));
  EXPECT_FALSE(isa.hasByteDot(Signs::Signed, 8));
  EXPECT_EQ(isa.hasByteDot(Signs::Mixed, 4), e.mixedDot);
  EXPECT_EQ(isa.has(Multiply::DotBF16), e.bf16);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::Int8), e.mixedDot);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::MixedInt8), e.mixedDot);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::BF16), e.bf16);
  EXPECT_EQ(isa.roundsToBF16(), e.bf16);
  EXPECT_TRUE(isa.convertsF16() && isa.fusesMultiplyAdd());
  EXPECT_FALSE(isa.tiles());
  EXPECT_FALSE(isa.hasGather(32));
}

/// A rate that the instruction set lacks would be believed.
TEST_P(Aarch64IsaTest, AgreesWithTheTableOfMachines) {
  TargetInfo target = llvm::cantFail(TargetInfo::get(GetParam().target));
  for (Multiply multiply : {Multiply::FmaF32, Multiply::FmaF16,
                            Multiply::DotBF16, Multiply::DotInt8})
    EXPECT_EQ(target.isa().has(multiply), target.model.rate(multiply) > 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, Aarch64IsaTest,
                         testing::Values(Expected{"aarch64", false, false},
                                         Expected{"neoverse-n1", false, false},
                                         Expected{"ampere-altra", false, false},
                                         Expected{"neoverse-v1", true, true},
                                         Expected{"neoverse-v2", true, true},
                                         Expected{"grace", true, true},
                                         Expected{"apple-m1", false, false}));

} // namespace
