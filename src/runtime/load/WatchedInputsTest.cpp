//===- WatchedInputsTest.cpp - when weights are read again ----------------===//
//-----------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include "anabranch/Copies.h"

#include <atomic>
#include <cstring>
#include <thread>

namespace anabranch::testing {

namespace {

constexpr int64_t elements = 64;

/// x + 2 * first + 4 * second, where the last two are computed once for a
/// version.
ProgramMaker watchingProgram() {
  ProgramMaker m;
  int x = m.input("x", {fixed(elements)});
  int first = m.input("first", {fixed(elements)});
  int second = m.input("second", {fixed(elements)});
  constexpr int64_t bytes = elements * 4;
  int a = m.persistent(0, {fixed(elements)}, bytes);
  int b = m.persistent(bytes, {fixed(elements)}, bytes);
  int c = m.persistent(2 * bytes, {fixed(elements)}, bytes);
  m.initializing = true;
  m.launch("twice", {first}, {a}, fixed(elements));
  m.launch("twice", {second}, {b}, fixed(elements));
  m.launch("twice", {b}, {c}, fixed(elements));
  m.initializing = false;
  int sum = m.arena(0, {fixed(elements)}, bytes);
  m.launch("add", {x, a}, {sum}, fixed(elements));
  m.launch("add", {sum, c}, {m.output({fixed(elements)})}, fixed(elements));
  return m;
}

/// A caller with weights of its own.
struct Caller {
  explicit Caller(const Executable &executable) : executable(executable) {}

  void set(size_t input, float value, uint64_t version) {
    arguments[input].values.assign(elements, value);
    versions[input] = version;
  }
  float call() {
    std::vector<InputValue> inputs;
    for (size_t i = 0; i < arguments.size(); ++i) {
      inputs.push_back(arguments[i].value());
      inputs.back().version = versions[i];
    }
    OutputValue output;
    Status s =
        executable.run(inputs.data(), inputs.size(), &output, 1, results);
    EXPECT_TRUE(s.ok()) << s.message();
    const std::vector<float> &found = results.memory[0];
    EXPECT_EQ(found, std::vector<float>(elements, found[0]));
    return found[0];
  }

  const Executable &executable;
  std::vector<TensorArgument> arguments{
      3, TensorArgument(std::vector<float>(elements, 0))};
  std::vector<uint64_t> versions{0, 0, 0};
  VectorAllocator results;
};

class WatchedInputs : public ::testing::Test, protected PackageFolder {};

} // namespace

TEST_F(WatchedInputs, AreReadOnceForAVersion) {
  auto executable = open(watchingProgram());
  ASSERT_TRUE(executable);
  EXPECT_FALSE(executable->inputs()[0].watched);
  EXPECT_TRUE(executable->inputs()[1].watched);
  EXPECT_TRUE(executable->inputs()[2].watched);
  Caller caller(*executable);
  caller.set(0, 1, 0);
  caller.set(1, 10, 1);
  caller.set(2, 100, 1);
  EXPECT_EQ(caller.call(), 1 + 2 * 10 + 4 * 100);
  // A promise that is broken shows that nothing is computed again.
  caller.set(1, 20, 1);
  EXPECT_EQ(caller.call(), 1 + 2 * 10 + 4 * 100);
  caller.set(2, 200, 2);
  EXPECT_EQ(caller.call(), 1 + 2 * 10 + 4 * 200);
  caller.set(1, 20, 3);
  EXPECT_EQ(caller.call(), 1 + 2 * 20 + 4 * 200);
}

TEST_F(WatchedInputs, WithoutAVersionAreReadInEachCall) {
  auto executable = open(watchingProgram());
  ASSERT_TRUE(executable);
  Caller caller(*executable);
  for (int i = 1; i < 4; ++i) {
    caller.set(1, static_cast<float>(i), 0);
    caller.set(2, 1, 7);
    EXPECT_EQ(caller.call(), static_cast<float>(2 * i + 4));
  }
}

TEST_F(WatchedInputs, AreCopiedOnceForAVersionIfTheyAreNotAligned) {
  auto executable = open(watchingProgram());
  ASSERT_TRUE(executable);
  std::vector<float> x(elements, 1);
  std::vector<char> weights(2 * elements * 4 + 1);
  for (size_t i = 0; i < 2 * elements; ++i) {
    float value = i < elements ? 10 : 100;
    std::memcpy(weights.data() + 1 + 4 * i, &value, 4);
  }
  char *first = weights.data() + 1;
  InputValue inputs[3];
  void *places[] = {x.data(), first, first + 4 * elements};
  for (size_t i = 0; i < 3; ++i) {
    inputs[i].tensor = {places[i], &elements, nullptr, 1,
                        anabranch::DType::F32};
    inputs[i].version = i;
  }
  VectorAllocator results;
  OutputValue output;
  for (int call = 0; call < 3; ++call) {
    Status s = executable->run(inputs, 3, &output, 1, results);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(results.memory[0],
              std::vector<float>(elements, 1 + 2 * 10 + 4 * 100));
  }
  EXPECT_EQ(copiedArguments(*executable), 2u);
}

TEST_F(WatchedInputs, AtAnotherPlaceAreReadAgain) {
  auto executable = open(watchingProgram());
  ASSERT_TRUE(executable);
  Caller one(*executable), other(*executable);
  one.set(1, 1, 1), one.set(2, 1, 1);
  other.set(1, 2, 1), other.set(2, 2, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.call(), 6);
    EXPECT_EQ(other.call(), 12);
  }
}

/// The next call uses no result of a failed one.
TEST_F(WatchedInputs, AreReadAgainAfterAnError) {
  ProgramMaker m;
  int w = m.input("w", {fixed(elements)});
  int a = m.persistent(0, {fixed(elements)}, elements * 4);
  m.initializing = true;
  m.launch("twice", {w}, {a}, fixed(elements));
  m.initializing = false;
  m.launch("twice", {a}, {m.output({fixed(elements)})}, fixed(elements));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  std::vector<float> values(elements, 3);
  int64_t wrong = elements + 1, right = elements;
  InputValue input;
  input.tensor.data = values.data();
  input.tensor.rank = 1;
  input.version = 1;
  VectorAllocator results;
  OutputValue output;
  for (int64_t *size : {&wrong, &right, &wrong, &right}) {
    input.tensor.shape = size;
    Status s = executable->run(&input, 1, &output, 1, results);
    EXPECT_EQ(s.ok(), size == &right);
  }
  EXPECT_EQ(results.memory[0], std::vector<float>(elements, 12));
}

TEST_F(WatchedInputs, OfSeveralThreadsDoNotMix) {
  auto executable = open(watchingProgram());
  ASSERT_TRUE(executable);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Caller caller(*executable);
      for (int i = 0; i < 200; ++i) {
        // Two threads change their weights, two keep them.
        auto value = static_cast<float>(t < 2 ? i : t);
        uint64_t version = t < 2 ? 1000 * (t + 1) + i : 1 + t;
        caller.set(1, value, version);
        caller.set(2, value, version);
        wrong += caller.call() != 6 * value;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace anabranch::testing
