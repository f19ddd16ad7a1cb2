//===- CpuFeaturesTest.cpp - names that LLVM and the compiler know --------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuFeatures.h"
#include "machine/processor/CpuFingerprint.h"

#include <gtest/gtest.h>

namespace anabranch::machine {

#if defined(__x86_64__)
TEST(CpuFeatures, AgreesWithTheCompiler) {
  EXPECT_TRUE(cpuHas("sse2"));
  EXPECT_EQ(cpuHas("avx2"), !!__builtin_cpu_supports("avx2"));
  EXPECT_EQ(cpuHas("fma"), !!__builtin_cpu_supports("fma"));
  EXPECT_EQ(cpuHas("bmi2"), !!__builtin_cpu_supports("bmi2"));
  EXPECT_EQ(cpuHas("avx512f"), !!__builtin_cpu_supports("avx512f"));
  EXPECT_EQ(cpuHas("avx512vl"), !!__builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(cpuHas("avx512vnni"), !!__builtin_cpu_supports("avx512vnni"));
}
#endif

TEST(CpuFingerprint, IsTheSameEachTime) {
  EXPECT_FALSE(cpuFingerprint().empty());
  EXPECT_EQ(cpuFingerprint(), cpuFingerprint());
}

TEST(CpuFeatures, NamesWhatIsMissing) {
  EXPECT_TRUE(missingFeatures({}).empty());
  EXPECT_EQ(missingFeatures({"sse2", "quantum", ""}),
            (std::vector<std::string>{"quantum", ""}));
}

} // namespace anabranch::machine
