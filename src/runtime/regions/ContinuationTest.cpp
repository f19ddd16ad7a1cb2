//===- ContinuationTest.cpp - sizes that the run decides ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <algorithm>

namespace anabranch::testing {

namespace {

/// A program that calls the host for the positive elements of its input, and a
/// continuation that adds one to each. Both results have the size that the host
/// found, and the program returns both.
class Continuation : public ::testing::Test, public HostCalls {
protected:
  struct Made {
    std::vector<float> values;
    int64_t shape = 0, stride = 1;
  };

  static ProgramMaker program() {
    ProgramMaker m, rest;
    int chosen = rest.input("chosen", {slot(0)});
    rest.p.slots = 1;
    rest.p.slot_sources.emplace_back(0, 0, 0);
    rest.launch("increment", {chosen}, {rest.output({slot(0)})}, slot(0));
    rest.p.slot_limits.emplace_back(0, 0, 6);
    int x = m.input("x", {fixed(8)});
    m.launch("increment", {x}, {m.arena(0, {fixed(8)}, 32)}, fixed(8));
    int found = m.external({fixed(-1)}), made = m.external({fixed(-1)});
    CallT call;
    call.op = "test::positive";
    call.arguments.push_back(ProgramMaker::tensorArgument(x));
    call.arguments[0]->name = "x";
    call.results = {found};
    m.push(std::move(call), 0);
    m.p.needs_libtorch = true;
    m.branch(x, {m.region(std::move(rest))}, {found}, {made}).predicate.reset();
    m.otherOutput(OutputKind::External).buffer = found;
    m.otherOutput(OutputKind::External).buffer = made;
    return m;
  }

  void SetUp() override {
    OpenOptions options;
    options.hostCalls = this;
    executable = folder.open(program(), options);
    ASSERT_TRUE(executable);
  }

  Status run(std::vector<float> x) {
    TensorArgument arg(std::move(x));
    InputValue value = arg.value();
    OutputValue outputs[2];
    VectorAllocator none;
    Status done = executable->run(&value, 1, outputs, 2, none);
    found.clear();
    results.clear();
    for (const OutputValue &output : outputs) {
      if (!output.handle)
        continue;
      found.push_back(output.tensor.shape[0]);
      results.push_back(static_cast<Made *>(output.handle)->values);
      release(output.handle);
    }
    return done;
  }

  HostResult made(std::vector<float> values) {
    auto *tensor = new Made{std::move(values)};
    tensor->shape = static_cast<int64_t>(tensor->values.size());
    ++alive;
    return {tensor,
            {tensor->values.data(), &tensor->shape, &tensor->stride, 1,
             anabranch::DType::F32}};
  }
  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &call, HostResult *results) override {
    const auto *x = static_cast<const float *>(call.arguments[0].tensor.data);
    std::vector<float> positive;
    std::copy_if(x, x + 8, std::back_inserter(positive),
                 [](float value) { return value > 0; });
    results[0] = made(std::move(positive));
    return {};
  }
  Expected<HostResult> make(const TensorView &like) override {
    return made(std::vector<float>(static_cast<size_t>(like.shape[0])));
  }
  void release(void *handle) override {
    delete static_cast<Made *>(handle);
    --alive;
  }

  int alive = 0;
  std::vector<int64_t> found;
  std::vector<std::vector<float>> results;
  PackageFolder folder;
  std::shared_ptr<const Executable> executable;
};

TEST_F(Continuation, RunsForEachSize) {
  for (int size : {3, 0, 1, 6, 3}) {
    std::vector<float> x(8, -1), expected;
    for (int i = 0; i < size; ++i) {
      x[7 - i] = static_cast<float>(size - i);
      expected.push_back(static_cast<float>(i + 2));
    }
    Status s = run(x);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(found, (std::vector<int64_t>{size, size}));
    EXPECT_EQ(results[1], expected);
    EXPECT_EQ(alive, 0);
  }
}

/// The continuation is for at most six elements.
TEST_F(Continuation, RefusesASizeBeyondItsLimitAndRunsAgain) {
  Status s = run(std::vector<float>(8, 1));
  EXPECT_NE(s.message().find("made for 6 or less"), std::string::npos)
      << s.message();
  EXPECT_TRUE(results.empty());
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(run(std::vector<float>(8, -1)).ok());
}

/// A program without a host. Its region's results, which have a size that only
/// the region knows, are outputs 0 and 2; output 1 is an alias of the input.
ProgramMaker hostlessProgram() {
  ProgramMaker m, rest;
  int chosen = rest.input("chosen", {slot(0)});
  rest.p.slots = 1;
  rest.p.slot_sources.emplace_back(0, 0, 0);
  rest.launch("increment", {chosen}, {rest.output({slot(0)})}, slot(0));
  int x = m.input("x", {slot(0)}), y = m.input("y", {fixed(8)});
  m.launch("increment", {y}, {m.arena(0, {fixed(8)}, 32)}, fixed(8));
  m.p.slots = 1;
  m.p.slot_sources.emplace_back(0, 0, 0);
  int made = m.external({fixed(-1)});
  m.branch(x, {m.region(std::move(rest))}, {x}, {made}).predicate.reset();
  m.otherOutput(OutputKind::External).buffer = made;
  m.otherOutput(OutputKind::Alias).index = 0;
  m.otherOutput(OutputKind::External).buffer = made;
  return m;
}

TEST(FoundResults, AreCopiedIntoTheCallersMemory) {
  PackageFolder folder;
  auto executable = folder.open(hostlessProgram());
  ASSERT_TRUE(executable);
  EXPECT_EQ(executable->outputs()[0].kind, OutputValue::Kind::Tensor);
  EXPECT_EQ(executable->outputs()[0].shape, std::vector<int64_t>{-1});
  VectorAllocator given;
  for (bool fails : {false, true, false}) {
    given.failsAtEnd = fails;
    for (std::vector<float> x : {std::vector<float>{1, 2, 3}, {}, {5}}) {
      std::vector<float> expected;
      for (float value : x)
        expected.push_back(value + 1);
      TensorArgument argument(std::move(x)), other(std::vector<float>(8));
      InputValue values[] = {argument.value(), other.value()};
      OutputValue outputs[3];
      Status s = executable->run(values, 2, outputs, 3, given);
      EXPECT_EQ(s.ok(), !fails) << s.message();
      if (fails)
        continue;
      EXPECT_EQ(outputs[1].kind, OutputValue::Kind::Alias);
      for (int number : {0, 2}) {
        EXPECT_EQ(outputs[number].kind, OutputValue::Kind::Tensor);
        EXPECT_EQ(outputs[number].handle, nullptr);
        EXPECT_EQ(given.memory[number], expected);
        EXPECT_EQ(given.shapes[number], argument.shape);
      }
    }
  }
}

} // namespace
} // namespace anabranch::testing
