//===- TargetTest.cpp - names of targets, and their rates -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/target/Target.h"

#include "machine/processor/CpuModels.h"
#include "gtest/gtest.h"

using namespace anabranch::native;

namespace {

/// A target has rates for the instructions that it has, and for no others.
TEST(Target, HasRatesForItsOwnInstructions) {
  auto rate = [](const char *name, Multiply multiply) {
    return llvm::cantFail(TargetInfo::get(name)).rate(multiply);
  };
  EXPECT_EQ(rate("sapphirerapids", Multiply::FmaF32), 32);
  EXPECT_EQ(rate("sapphirerapids", Multiply::DotBF16), 16);
  EXPECT_EQ(rate("sapphirerapids", Multiply::TileBF16), 512);
  EXPECT_EQ(rate("avx512fp16", Multiply::TileBF16), 0);
  EXPECT_EQ(rate("znver4", Multiply::DotBF16), 32);
  EXPECT_EQ(rate("znver4", Multiply::FmaF16), 0);
  EXPECT_EQ(rate("alderlake", Multiply::DotInt8), 64);
  EXPECT_EQ(rate("haswell", Multiply::DotInt8), 0);
}

/// A CPU has an instruction that its model in the table lacks.
TEST(Target, HasAUsualRateWhereTheTableHasNone) {
  TargetInfo target = llvm::cantFail(TargetInfo::get("avx512vnni"));
  target.model.rates[int(Multiply::DotInt8)] = 0;
  EXPECT_EQ(target.rate(Multiply::DotInt8), 4 * target.rate(Multiply::FmaF32));
}

/// LLVM may know fewer features of this machine than the machine room.
TEST(Target, NativeHasTheMultipliesOfThisMachine) {
  TargetInfo target = llvm::cantFail(TargetInfo::get("native"));
  for (int i = 0; i < anabranch::machine::multiplyCount; ++i) {
    auto multiply = Multiply(i);
    EXPECT_EQ(target.isa().has(multiply), anabranch::machine::cpuHas(multiply))
        << anabranch::machine::nameOf(multiply);
  }
  EXPECT_TRUE(target.runsHere());
}

TEST(Target, UnknownNameIsAnErrorThatListsTheOthers) {
  auto target = TargetInfo::get("z80");
  ASSERT_FALSE(bool(target));
  std::string message = llvm::toString(target.takeError());
  for (const char *part : {"'z80'", "host", "portable", "avx2", "znver5"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Target, PortableCodeNeedsNoFeature) {
  TargetInfo target = llvm::cantFail(TargetInfo::get("portable"));
  EXPECT_TRUE(target.runsHere());
  EXPECT_EQ(target.features, "");
  EXPECT_EQ(target.lanes(32), 4U);
  EXPECT_GT(target.rate(Multiply::FmaF32), 0);
  for (Multiply other : {Multiply::FmaF16, Multiply::DotBF16, Multiply::DotInt8,
                         Multiply::TileBF16, Multiply::TileInt8})
    EXPECT_EQ(target.rate(other), 0);
  EXPECT_FALSE(target.halvesVectors());
}

} // namespace
