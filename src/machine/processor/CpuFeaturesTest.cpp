//===- CpuFeaturesTest.cpp - names that LLVM and the compiler know --------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuFeatures.h"

#include "machine/processor/ArmFeatures.h"
#include "machine/processor/CpuFingerprint.h"
#include "support/machine/TestMachine.h"
#include "support/machine/UsualFeature.h"

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

/// Words as they are on Neoverse N1, without SVE, and on V1.
TEST(ArmFeatures, AreBitsOfLinuxsWords) {
  ArmCapabilities n1 = {0x7fffffff & ~(uint64_t(1) << 22), 0};
  EXPECT_TRUE(n1.has("neon") && n1.has("dotprod") && n1.has("fullfp16"));
  EXPECT_FALSE(n1.has("sve") || n1.has("i8mm") || n1.has("bf16"));
  ArmCapabilities v1 = {uint64_t(1) << 22, uint64_t(3) << 13};
  EXPECT_TRUE(v1.has("sve") && v1.has("i8mm") && v1.has("bf16"));
  EXPECT_FALSE(v1.has("avx2") || v1.has("") || isArmFeature("avx2"));
  EXPECT_TRUE(isFeature("i8mm") && isFeature("avx2"));
}

TEST(ArmFeatures, ACoreIsReadFromItsRegister) {
  ArmIdentity n1 = ArmIdentity::read("0x00000000413fd0c1");
  EXPECT_EQ(n1.implementer, 0x41u);
  EXPECT_EQ(n1.part, 0xd0cu);
  EXPECT_EQ(ArmIdentity::read("").part, 0u);
}

/// Containers may hide the files of a core in sysfs.
TEST(ArmFeatures, ACoreIsReadFromTheListOfCpusToo) {
  anabranch::testing::FakeMachine machine;
  EXPECT_EQ(ArmIdentity::host(machine.root()).implementer, 0u);
  machine.write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n"
                                 "CPU part\t: 0xd40\n");
  EXPECT_EQ(ArmIdentity::host(machine.root()).part, 0xd40u);
  machine.write("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1",
                "0x00000000413fd0c1\n");
  EXPECT_EQ(ArmIdentity::host(machine.root()).part, 0xd0cu);
  EXPECT_EQ(ArmIdentity::readCpuInfo("CPU implementer").implementer, 0u);
}

TEST(ArmFeatures, EveryNameIsKnown) {
  std::vector<std::string_view> names = armFeatures();
  ArmCapabilities all = {~uint64_t(0), ~uint64_t(0)};
  EXPECT_GT(names.size(), 10u);
  for (std::string_view name : names)
    EXPECT_TRUE(all.has(name) && isFeature(name)) << name;
}

TEST(CpuFingerprint, IsTheSameEachTime) {
  EXPECT_FALSE(cpuFingerprint().empty());
  EXPECT_EQ(cpuFingerprint(), cpuFingerprint());
}

TEST(CpuFeatures, NamesWhatIsMissing) {
  EXPECT_TRUE(missingFeatures({}).empty());
  EXPECT_EQ(missingFeatures({usualFeature(), "quantum", ""}),
            (std::vector<std::string>{"quantum", ""}));
}

} // namespace anabranch::machine
