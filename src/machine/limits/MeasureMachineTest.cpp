//===- MeasureMachineTest.cpp - measured rates are possible ones ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/limits/MeasureMachine.h"

#include <cstdio>
#include <gtest/gtest.h>

using namespace anabranch::machine;

namespace {

TEST(MeasureMachine, RatesOfMultiplyAddsArePossible) {
  double one = measureGflops(1), two = measureGflops(2);
  EXPECT_GT(one, 0.1);
  EXPECT_LT(one, 1e4);
  EXPECT_GT(two, 0.1);
}

TEST(MeasureMachine, ReadsMemoriesOfAnySize) {
  for (int threads : {1, 2})
    for (int64_t bytes : {int64_t(8) << 10, int64_t(3) << 20}) {
      double rate = measureReadGBs(threads, bytes);
      EXPECT_GT(rate, 0.01) << threads << " threads, " << bytes << " bytes";
      EXPECT_LT(rate, 1e5) << threads << " threads, " << bytes << " bytes";
    }
}

TEST(MeasureMachine, LimitsArePlausible) {
  MachineLimits limits = measureMachineLimits();
  EXPECT_GT(limits.gflops, 1);
  EXPECT_LT(limits.gflops, 1000);
  EXPECT_GE(limits.gflopsAll, limits.gflops);
  EXPECT_GT(limits.cacheGBs, 1);
  EXPECT_GT(limits.memoryGBs, 0.1);
  EXPECT_GE(limits.memoryGBsAll, limits.memoryGBs);
  std::printf(
      "%.0f GFLOP/s, %.0f with all; %.0f GB/s from the cache, %.0f from "
      "memory, %.0f with all; %.1f us to wake\n",
      limits.gflops, limits.gflopsAll, limits.cacheGBs, limits.memoryGBs,
      limits.memoryGBsAll, limits.wakeMicroseconds);
}

} // namespace
