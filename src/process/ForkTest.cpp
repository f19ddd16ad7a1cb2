//===- ForkTest.cpp - forks beside threads that hold something ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "process/Fork.h"

#include <gtest/gtest.h>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace anabranch {

namespace {

/// Forks. True if `holds` does in the child, which has ten seconds.
template <typename F> bool inChild(F holds) {
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(holds() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

class Fork : public ::testing::Test {};

} // namespace

TEST_F(Fork, WaitsForTheEndOfSections) {
  int first = 0, second = 0;
  std::mutex mutex;
  std::atomic<bool> inside{false};
  std::thread changing([&] {
    NoFork section;
    std::lock_guard<std::mutex> lock(mutex);
    first = 1;
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    second = 1;
  });
  while (!inside)
    std::this_thread::yield();
  EXPECT_TRUE(inChild([&] {
    NoFork section;
    std::lock_guard<std::mutex> lock(mutex);
    return first == 1 && second == 1;
  }));
  changing.join();
}

TEST_F(Fork, LetsSectionsNestWhileItWaits) {
  std::atomic<bool> inside{false};
  std::thread nesting([&] {
    NoFork outer;
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    NoFork inner;
  });
  while (!inside)
    std::this_thread::yield();
  EXPECT_TRUE(inChild([] { return true; }));
  nesting.join();
}

TEST_F(Fork, AChildOfAChildHasSectionsToo) {
  EXPECT_TRUE(inChild([] {
    NoFork section;
    return true;
  }));
  EXPECT_TRUE(inChild([] {
    return inChild([] {
      NoFork section;
      return true;
    });
  }));
}

TEST_F(Fork, MakesAnewWhatIsLocal) {
  ForkLocal<std::mutex> local;
  EXPECT_EQ(local.find(), nullptr);
  std::mutex &own = local.get();
  EXPECT_EQ(&local.get(), &own);
  std::lock_guard<std::mutex> held(own);
  uint32_t depth = forkDepth();
  EXPECT_TRUE(inChild([&] {
    if (local.find() || forkDepth() != depth + 1)
      return false;
    std::lock_guard<std::mutex> lock(local.get());
    return &local.get() != &own && local.find() == &local.get();
  }));
  EXPECT_EQ(&local.get(), &own);
  EXPECT_EQ(forkDepth(), depth);
}

TEST_F(Fork, ThreadsThatAskAtOnceGetOneLocal) {
  for (int round = 0; round < 100; ++round) {
    ForkLocal<int> local;
    std::atomic<int> ready{0};
    int *found[2];
    std::thread threads[2];
    for (int i = 0; i < 2; ++i)
      threads[i] = std::thread([&, i] {
        for (++ready; ready < 2;)
          std::this_thread::yield();
        found[i] = &local.get();
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(found[0], found[1]);
  }
}

} // namespace anabranch
