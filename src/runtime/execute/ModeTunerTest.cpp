//===- ModeTunerTest.cpp - the quickest of modes is found and kept --------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/ModeTuner.h"

#include <algorithm>
#include <array>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace anabranch::runtime {

namespace {

using Mode = ExecutionMode;

/// Simulates calls whose times are known.
struct Calls {
  ModeTuner tuner;
  int64_t spent = 0; ///< nanoseconds
  int looks = 0;     ///< calls that were timed

  void play(int count, const std::function<int64_t(Mode)> &time) {
    for (int i = 0; i < count; ++i) {
      int64_t took = time(tuner.mode());
      spent += took;
      if (!tuner.wantsTime())
        continue;
      ++looks;
      tuner.record(took);
    }
  }
};

std::function<int64_t(Mode)> times(int64_t shared, int64_t members,
                                   int64_t serial) {
  return [=](Mode mode) {
    return mode == Mode::Shared           ? shared
           : mode == Mode::MemberByMember ? members
                                          : serial;
  };
}

ModeTuner allModes() {
  return ModeTuner({Mode::Shared, Mode::MemberByMember, Mode::Serial});
}

TEST(ModeTunerTest, FindsTheQuickestWithinAFewRounds) {
  for (auto [shared, members, serial, best] :
       {std::tuple(10, 20, 30, Mode::Shared),
        {20, 10, 30, Mode::MemberByMember},
        {20, 30, 10, Mode::Serial},
        {30, 20, 10, Mode::Serial}}) {
    Calls calls{allModes()};
    calls.play(4 * ModeTuner::rest, times(shared, members, serial));
    EXPECT_EQ(calls.tuner.fastest(), best);
  }
}

TEST(ModeTunerTest, TrialsCostLittle) {
  Calls calls{allModes()};
  constexpr int count = 100000;
  calls.play(count, times(10000, 15000, 20000));
  EXPECT_LT(static_cast<double>(calls.spent), 1.01 * 10000 * count);
  EXPECT_LT(calls.looks, count / 8);
}

TEST(ModeTunerTest, ADifferenceOfNoiseChangesNothing) {
  Calls calls{allModes()};
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.005);
  int changes = 0;
  Mode last = calls.tuner.fastest();
  for (int i = 0; i < 300; ++i) {
    calls.play(ModeTuner::rest, [&](Mode mode) {
      double usual = mode == Mode::Shared ? 10000 : 10100;
      return static_cast<int64_t>(usual * (1 + noise(random)));
    });
    changes += calls.tuner.fastest() != last;
    last = calls.tuner.fastest();
  }
  EXPECT_LT(changes, 3);
  EXPECT_LT(static_cast<double>(calls.spent),
            1.01 * 10000 * 300 * ModeTuner::rest);
}

/// A worker's processor is taken away, and given back.
TEST(ModeTunerTest, FollowsAMachineThatChanges) {
  Calls calls{allModes()};
  calls.play(100000, times(10000, 12000, 15000));
  EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
  calls.play(4 * ModeTuner::rest, times(40000, 42000, 15000));
  EXPECT_EQ(calls.tuner.fastest(), Mode::Serial);
  calls.play(20 * ModeTuner::rest, times(10000, 12000, 15000));
  EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
}

TEST(ModeTunerTest, OneSlowCallIsNoReason) {
  Calls calls{allModes()};
  int64_t number = 0;
  calls.play(50000, [&](Mode mode) -> int64_t {
    if (++number % 50 == 0)
      return 1000000;
    return mode == Mode::Shared ? 10000 : 11000;
  });
  EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
}

/// Other processes take a worker's processor for some milliseconds.
TEST(ModeTunerTest, BurstsCostLittleMoreThanThemselves) {
  constexpr int count = 50000;
  auto withBursts = [number = 0](Mode mode) mutable -> int64_t {
    if (mode == Mode::Serial)
      return 17000;
    return ++number % 400 < 40 ? 30000 : 10000;
  };
  Calls fixed{ModeTuner({Mode::Shared})}, calls{allModes()};
  fixed.play(count, withBursts);
  calls.play(count, withBursts);
  EXPECT_LT(static_cast<double>(calls.spent),
            1.03 * static_cast<double>(fixed.spent));
}

/// The calls until the tuner has found `best` and no longer leaves it.
int callsUntil(Calls &calls, Mode best,
               const std::function<int64_t(Mode)> &time) {
  int last = 0;
  for (int i = 0; i < 5000; ++i) {
    calls.play(1, time);
    if (calls.tuner.fastest() != best)
      last = i + 1;
  }
  return last;
}

/// Other processes come and go. The caller alone may not notice them.
TEST(ModeTunerTest, NoiseThatEndsIsForgotten) {
  for (int64_t unit : {10, 10000}) {
    auto quiet = times(84 * unit, 90 * unit, 210 * unit);
    for (auto [shared, members, serial] :
         {std::tuple(400, 410, 210), {400, 410, 280}, {800, 700, 400}}) {
      Calls calls{allModes()};
      calls.tuner.reset(2);
      calls.play(20000, quiet);
      EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
      auto noisy = times(shared * unit, members * unit, serial * unit);
      EXPECT_LT(callsUntil(calls, Mode::Serial, noisy), 200);
      int most = serial > 210 ? 200 : 700;
      EXPECT_LT(callsUntil(calls, Mode::Shared, quiet), most);
    }
  }
}

/// What calls take in each mode changes after `length` calls. Each call has
/// noise of its own.
TEST(ModeTunerTest, TrialsCostLittleHoweverTheMachineChanges) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> factor(1, 4);
  for (double sigma : {0.001, 0.05, 0.3})
    for (int length : {20, 50, 300, 3000, 20000}) {
      Calls calls{allModes()};
      calls.tuner.reset(2);
      std::lognormal_distribution<double> noise(0, sigma);
      double atBest = 0, lost = 0, lostInTrials = 0;
      for (int left = 200000; left > 0; left -= length) {
        std::array<double, 3> usual{};
        for (double &time : usual)
          time = 10000 * factor(random);
        auto of = [&](Mode mode) { return usual[static_cast<size_t>(mode)]; };
        double least = *std::min_element(usual.begin(), usual.end());
        calls.play(length, [&](Mode mode) {
          atBest += least;
          lost += of(mode) - least;
          lostInTrials += std::max(of(mode) - of(calls.tuner.fastest()), 0.0);
          return static_cast<int64_t>(of(mode) * noise(random));
        });
      }
      EXPECT_LT(lostInTrials, 0.02 * atBest) << sigma << " " << length;
      if (length == 20000) {
        EXPECT_LT(lost, 0.03 * atBest) << sigma;
      }
    }
}

/// The machine's other cores are busy.
TEST(ModeTunerTest, OneWorkerIsFoundForLongCalls) {
  for (int64_t unit : {1000000, 10000000}) {
    Calls calls{allModes()};
    calls.tuner.reset(2);
    calls.play(200, times(28 * unit, 28 * unit, 21 * unit));
    EXPECT_EQ(calls.tuner.fastest(), Mode::Serial);
  }
}

TEST(ModeTunerTest, LongCallsAreRarelyRunByOneWorkerInVain) {
  Calls calls{ModeTuner({Mode::Shared, Mode::Serial})};
  calls.tuner.reset(2);
  constexpr int count = 20000;
  int alone = 0;
  calls.play(count, [&](Mode mode) -> int64_t {
    alone += mode == Mode::Serial;
    return mode == Mode::Shared ? 10000000 : 19000000;
  });
  EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
  EXPECT_GE(alone, 1);
  EXPECT_LT(alone, count / 400);
}

TEST(ModeTunerTest, CallsThatOneWorkerCouldMakeMuchTooLongAreLeftAlone) {
  Calls calls{allModes()};
  calls.tuner.reset(64);
  calls.play(20000, [](Mode mode) -> int64_t {
    EXPECT_NE(mode, Mode::Serial);
    return mode == Mode::Shared ? 10000000 : 9000000;
  });
  EXPECT_EQ(calls.tuner.fastest(), Mode::MemberByMember);
}

TEST(ModeTunerTest, OneModeIsNeverTimed) {
  Calls calls{ModeTuner({Mode::Shared})};
  calls.play(1000, times(1, 1, 1));
  EXPECT_EQ(calls.looks, 0);
}

TEST(ModeTunerTest, ResetForgets) {
  Calls calls{allModes()};
  calls.play(1000, times(20000, 30000, 10000));
  EXPECT_EQ(calls.tuner.fastest(), Mode::Serial);
  calls.tuner.reset(2);
  EXPECT_EQ(calls.tuner.fastest(), Mode::Shared);
}

} // namespace
} // namespace anabranch::runtime
