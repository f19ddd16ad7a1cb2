//===- CpuModelsTest.cpp - rates by what CPUID says -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuModels.h"

#include "machine/processor/AmdCpus.h"
#include "machine/processor/ArmCpus.h"
#include "machine/processor/CpuFeatures.h"
#include "machine/processor/GenericCpus.h"
#include "machine/processor/IntelCpus.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace anabranch::machine {

namespace {

CpuIdentity identity(const char *maker, unsigned family, unsigned model,
                     bool hasExtensions = true) {
  return {maker, family, model, hasExtensions, {}};
}

} // namespace

TEST(CpuModels, IsFoundByFamilyAndModel) {
  auto name = [](const char *maker, unsigned family, unsigned model) {
    return cpuModelOf(identity(maker, family, model)).name;
  };
  EXPECT_EQ(name("GenuineIntel", 6, 0x3f), "haswell");
  EXPECT_EQ(name("GenuineIntel", 6, 0x8f), "sapphirerapids");
  EXPECT_EQ(name("GenuineIntel", 6, 0xcf), "sapphirerapids");
  EXPECT_EQ(name("GenuineIntel", 6, 0x97), "alderlake");
  EXPECT_EQ(name("AuthenticAMD", 0x17, 0x31), "znver2");
  EXPECT_EQ(name("AuthenticAMD", 0x19, 0x01), "znver3");
  EXPECT_EQ(name("AuthenticAMD", 0x19, 0x11), "znver4");
  EXPECT_EQ(name("AuthenticAMD", 0x19, 0x21), "znver3");
  EXPECT_EQ(name("AuthenticAMD", 0x19, 0x61), "znver4");
  EXPECT_EQ(name("AuthenticAMD", 0x1a, 0x24), "znver5-mobile");
  EXPECT_EQ(name("AuthenticAMD", 0x1a, 0x44), "znver5");
  EXPECT_EQ(name("Arm", 0x41, 0xd0c), "neoverse-n1");
  EXPECT_EQ(name("Arm", 0x41, 0xd4f), "neoverse-v2");
  EXPECT_EQ(name("Arm", 0x61, 0x022), "apple-m1");
}

TEST(CpuModels, AnUnknownCpuIsTheNewestOfItsMaker) {
  auto name = [](const char *maker, bool hasExtensions) {
    return cpuModelOf(identity(maker, 99, 0, hasExtensions)).name;
  };
  EXPECT_EQ(name("GenuineIntel", true), "sapphirerapids");
  EXPECT_EQ(name("GenuineIntel", false), "alderlake");
  EXPECT_EQ(name("AuthenticAMD", true), "znver5");
  EXPECT_EQ(name("AuthenticAMD", false), "znver3");
  EXPECT_EQ(name("Arm", true), "neoverse-v2");
  EXPECT_EQ(name("Arm", false), "aarch64");
  EXPECT_EQ(name("CentaurHauls", true), "x86-64-v4");
  EXPECT_EQ(name("", false), "x86-64-v3");
}

/// Some virtual machines report the numbers of Rocket Lake and have the AMX of
/// a Xeon.
TEST(CpuModels, ANumberCountsOnlyForWhatItsModelHas) {
  auto name = [](unsigned model, std::initializer_list<Multiply> offered) {
    CpuIdentity cpu = identity("GenuineIntel", 6, model);
    for (Multiply multiply : offered)
      cpu.multiplies.set(int(multiply));
    return cpuModelOf(cpu).name;
  };
  EXPECT_EQ(name(0xa7, {Multiply::FmaF32, Multiply::DotInt8}),
            "icelake-client");
  EXPECT_EQ(name(0xa7, {Multiply::FmaF32, Multiply::TileBF16}),
            "sapphirerapids");
  EXPECT_EQ(name(0x55, {Multiply::FmaF32, Multiply::DotInt8}), "cascadelake");
  EXPECT_EQ(name(0x55, {Multiply::FmaF32, Multiply::DotBF16}), "cooperlake");
  EXPECT_EQ(name(0x8f, {Multiply::FmaF32}), "sapphirerapids");
}

/// One dot product of bf16 does the work of two FMAs. Intel needs four times
/// the time of one FMA for it, Zen the same time.
TEST(CpuModels, RatesTellInstructionsOfOneFeatureApart) {
  auto gain = [](const char *name) {
    const CpuModel *model = findCpuModel(name);
    return model->rate(Multiply::DotBF16) / model->rate(Multiply::FmaF32);
  };
  EXPECT_EQ(gain("sapphirerapids"), 0.5);
  EXPECT_EQ(gain("znver4"), 2);
  EXPECT_EQ(gain("znver5"), 2);
  EXPECT_EQ(findCpuModel("nothing"), nullptr);
}

template <size_t size> void checkTable(const CpuRow (&rows)[size]) {
  for (const CpuRow &row : rows) {
    const CpuModel &model = row.model;
    // Equal names would hide a row.
    EXPECT_EQ(findCpuModel(model.name), &model) << model.name;
    EXPECT_GT(model.rate(Multiply::FmaF32), 0) << model.name;
    EXPECT_GE(model.fmaPorts, 1) << model.name;
    EXPECT_GE(model.l1Load, model.l2Load) << model.name;
    EXPECT_GE(model.l2Load, model.l3Load) << model.name;
    EXPECT_GT(model.l3Load, 0) << model.name;
    EXPECT_LT(model.l1Bytes, model.l2Bytes) << model.name;
    EXPECT_LT(model.l2Bytes, model.l3Bytes) << model.name;
    EXPECT_EQ(model.l1Bytes % model.pageBytes, 0) << model.name;
    EXPECT_EQ(model.pageBytes % model.lineBytes, 0) << model.name;
  }
}

TEST(CpuModels, EveryRowIsWhole) {
  checkTable(intelCpus);
  checkTable(amdCpus);
  checkTable(armCpus);
  checkTable(genericCpus);
  for (const CpuMaker &maker : {intel, amd, anyMaker}) {
    EXPECT_NE(findCpuModel(maker.newestExtended), nullptr);
    EXPECT_NE(findCpuModel(maker.newest), nullptr);
  }
}

/// Linux says more of the caches of 64-bit Arm than glibc does.
TEST(CpuModels, TakesTheSizesOfTheMachinesCaches) {
  CpuModel model = *findCpuModel("neoverse-n1");
  int64_t third = model.l3Bytes;
  setCaches(model,
            {{1, 32 * KiB, 128, "0"}, {2, 2 * MiB, 0, "0"}, {3, 0, 0, ""}});
  EXPECT_EQ(model.l1Bytes, 32 * KiB);
  EXPECT_EQ(model.l2Bytes, 2 * MiB);
  EXPECT_EQ(model.l3Bytes, third);
  EXPECT_EQ(model.lineBytes, 128);
}

TEST(CpuModels, TheHostHasRatesForWhatItOffers) {
  const CpuModel &model = hostCpuModel();
  EXPECT_GT(model.rate(Multiply::FmaF32), 0);
  EXPECT_GE(model.fmaPorts, 1);
  EXPECT_GE(model.l1Bytes, 8 * 1024);
  EXPECT_GT(model.l2Bytes, model.l1Bytes);
  for (int i = 0; i < multiplyCount; ++i)
    if (cpuHas(Multiply(i)))
      EXPECT_GT(model.rates[i], 0) << nameOf(Multiply(i));
  bool isArm = hostCpu() == std::string_view("aarch64");
  EXPECT_EQ(cpuHas(Multiply::FmaF32), cpuHas(isArm ? "neon" : "fma"));
  EXPECT_EQ(cpuHas(Multiply::DotBF16), cpuHas(isArm ? "bf16" : "avx512bf16"));
}

} // namespace anabranch::machine
