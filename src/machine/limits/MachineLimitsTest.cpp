//===- MachineLimitsTest.cpp - what is kept of measurements ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/limits/MachineLimits.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

using namespace anabranch::machine;

namespace {

class KeptLimits : public ::testing::Test {
protected:
  KeptLimits()
      : path(std::filesystem::temp_directory_path() /
             ("limits-" + std::to_string(::getpid()) + ".json")) {}
  ~KeptLimits() override { std::filesystem::remove(path); }

  /// The limits after a process whose measurement gives these figures.
  MachineLimits after(double rate, double wake, bool disturbed) {
    return keptLimits(path, "a CPU", [&] {
      ++measured;
      MachineLimits limits;
      limits.gflops = limits.gflopsAll = limits.cacheGBs = limits.memoryGBs =
          limits.memoryGBsAll = rate;
      limits.wakeMicroseconds = wake;
      limits.disturbed = disturbed;
      return limits;
    });
  }

  std::filesystem::path path;
  int measured = 0;
};

TEST_F(KeptLimits, AQuietMeasurementIsMadeOnce) {
  EXPECT_EQ(after(100, 5, false).gflops, 100);
  EXPECT_EQ(after(200, 5, false).gflops, 100);
  EXPECT_EQ(measured, 1);
}

TEST_F(KeptLimits, TheBetterFiguresOfDisturbedOnesStay) {
  after(50, 90, true);
  MachineLimits second = after(40, 20, true);
  EXPECT_EQ(second.gflops, 50);
  EXPECT_EQ(second.wakeMicroseconds, 20);
  EXPECT_EQ(second.disturbed, 2);
  MachineLimits third = after(100, 5, false);
  EXPECT_EQ(third.memoryGBsAll, 100);
  EXPECT_EQ(third.disturbed, 0);
  EXPECT_EQ(after(1, 1, true).memoryGBsAll, 100);
  EXPECT_EQ(measured, 3);
}

TEST_F(KeptLimits, AMachineThatIsAlwaysBusyIsNotMeasuredForever) {
  for (int process = 0; process < 9; ++process)
    after(50, 90, true);
  EXPECT_EQ(measured, 3);
}

TEST_F(KeptLimits, OneCpuWakesNoOther) {
  EXPECT_EQ(after(100, 0, false).wakeMicroseconds, 0);
  after(100, 0, false);
  EXPECT_EQ(measured, 1);
}

TEST_F(KeptLimits, AFileThatSaysSomethingElseIsMeasuredAgain) {
  after(100, 5, false);
  keptLimits(path, "another CPU", [&] {
    ++measured;
    return MachineLimits();
  });
  EXPECT_EQ(measured, 2);
  for (const char *text :
       {"", "[", "{}", R"({"version": 4, "cpu": "a CPU"})"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(after(100, 5, false).gflops, 100) << text;
  }
  EXPECT_EQ(measured, 6);
}

} // namespace
