//===- ClockTest.cpp - ticks and time of the system -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Clock.h"

#include "gtest/gtest.h"

#include <chrono>
#include <thread>
#include <vector>

using namespace anabranch::trace;

namespace {

TEST(Clock, TicksBecomeTheSystemsTime) {
  struct Sample {
    int64_t before, ticks, after;
  };
  std::vector<Sample> samples;
  Moment first = Moment::read();
  for (int i = 0; i < 50; ++i) {
    int64_t before = now(), at = ticks();
    samples.push_back({before, at, now()});
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  TickScale scale(first, Moment::read());
  // An interruption between two readings of the clocks shifts them. The
  // interval of an interrupted sample bounds its error.
  int64_t slack = 20000;
  for (const Sample &sample : samples) {
    int64_t at = scale.nanoseconds(sample.ticks);
    EXPECT_GE(at, sample.before - slack);
    EXPECT_LE(at, sample.after + slack);
  }
}

TEST(Clock, NoTimeBetweenTwoMomentsIsNoDivision) {
  Moment moment{5, 1000};
  EXPECT_EQ(TickScale(moment, moment).nanoseconds(5), 1000);
}

} // namespace
