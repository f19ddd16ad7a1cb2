//===- MeasureMachineTest.cpp - measured rates are possible ones ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/MeasureMachine.h"

#include <gtest/gtest.h>

using namespace anabranch::trace;

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

} // namespace
