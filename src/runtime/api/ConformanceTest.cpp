//===- ConformanceTest.cpp - what every device must do --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include "anabranch/Copies.h"
#include "runtime/device/Devices.h"
#include "runtime/execute/Execute.h"

#include <cstring>

namespace anabranch::testing {

namespace {

class Conformance : public ::testing::TestWithParam<std::string>,
                    protected PackageFolder {
protected:
  std::shared_ptr<const Executable> open(const ProgramMaker &maker,
                                         OpenOptions options = {}) {
    options.device = GetParam();
    return PackageFolder::open(maker, options);
  }

  /// Runs the executable and stores its outputs in `results`.
  Status run(const Executable &executable, std::vector<TensorArgument> args) {
    std::vector<InputValue> inputs;
    inputs.reserve(args.size());
    for (TensorArgument &a : args)
      inputs.push_back(a.value());
    outputs.assign(executable.outputs().size(), {});
    return executable.run(inputs.data(), inputs.size(), outputs.data(),
                          outputs.size(), results);
  }

  void expectOutput(size_t number, const std::vector<float> &values) {
    if (anabranch::runtime::findDevice(GetParam())->computes())
      EXPECT_EQ(results.memory[number], values);
    else
      EXPECT_EQ(results.memory[number].size(), values.size());
  }

  /// Checks 200 runs of the program with each number of threads.
  void expectEachTime(const ProgramMaker &maker,
                      std::initializer_list<int> threadCounts,
                      const std::vector<float> &input,
                      const std::vector<float> &expected, size_t launches = 0) {
    for (int threads : threadCounts) {
      OpenOptions options;
      options.threads = threads;
      auto executable = open(maker, options);
      ASSERT_TRUE(executable);
      if (launches)
        EXPECT_EQ(executable->launchCount(), launches);
      for (int i = 0; i < 200; ++i) {
        Status s = run(*executable, {TensorArgument(input)});
        ASSERT_TRUE(s.ok()) << s.message();
        expectOutput(0, expected);
      }
    }
  }

  std::vector<OutputValue> outputs;
  VectorAllocator results;
};

TEST_P(Conformance, RunsOneKernel) {
  auto executable = open(incrementProgram(100));
  ASSERT_TRUE(executable);
  for (int threads : {1, 2, 4}) {
    setDefaultThreads(threads);
    Status s = run(*executable, {TensorArgument(iota(100))});
    ASSERT_TRUE(s.ok()) << s.message();
    expectOutput(0, iota(100, 1));
  }
  setDefaultThreads(0);
}

TEST_P(Conformance, ChainsThroughTheArena) {
  ProgramMaker m;
  int x = m.input("x", {fixed(1000)});
  int a = m.arena(0, {fixed(1000)}, 4032);
  int b = m.arena(4032, {fixed(1000)}, 4032);
  m.launch("increment", {x}, {a}, fixed(1000));
  m.launch("twice", {a}, {b}, fixed(1000));
  m.launch("add", {a, b}, {m.output({fixed(1000)})}, fixed(1000));
  std::vector<float> expected;
  for (float v : iota(1000, 1))
    expected.push_back(3 * v);
  expectEachTime(m, {2}, iota(1000), expected);
}

TEST_P(Conformance, FillsPersistentMemoryOnce) {
  ProgramMaker m;
  std::vector<float> weight = iota(64, 5);
  m.constants.push_back({"w", anabranch::DType::F32, {64}, weight.data()});
  int w = m.constant("w", {fixed(64)});
  int packed = m.persistent(0, {fixed(64)}, 256);
  m.initializing = true;
  m.launch("twice", {w}, {packed}, fixed(64));
  m.initializing = false;
  int x = m.input("x", {fixed(64)});
  m.launch("add", {x, packed}, {m.output({fixed(64)})}, fixed(64));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  std::vector<float> expected(64);
  for (size_t i = 0; i < 64; ++i)
    expected[i] = static_cast<float>(i) + 2 * weight[i];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run(*executable, {TensorArgument(iota(64))}).ok());
    expectOutput(0, expected);
  }
}

TEST_P(Conformance, OrdersStreamsByEvents) {
  ProgramMaker m;
  int x = m.input("x", {fixed(640)});
  int side = m.stream(/*priority=*/1);
  int third = m.stream();
  int a = m.arena(0, {fixed(640)}, 2560), b = m.arena(2560, {fixed(640)}, 2560);
  int c = m.arena(5120, {fixed(640)}, 2560);
  m.launch("increment", {x}, {a}, fixed(640));
  m.record(0, 0);
  m.wait(0, side);
  m.launch("increment", {a}, {b}, fixed(640), side);
  m.record(1, side);
  m.wait(0, third);
  m.launch("twice", {a}, {c}, fixed(640), third);
  m.record(2, third);
  m.wait(1, 0);
  m.wait(2, 0);
  m.launch("add", {b, c}, {m.output({fixed(640)})}, fixed(640));
  std::vector<float> expected;
  for (float v : iota(640))
    expected.push_back(v + 2 + 2 * (v + 1));
  expectEachTime(m, {1, 2, 3}, iota(640), expected);
}

TEST_P(Conformance, RunsSuperKernelsAsTheirLaunches) {
  ProgramMaker m;
  int x = m.input("x", {fixed(640)});
  int side = m.stream();
  int a = m.arena(0, {fixed(640)}, 2560), b = m.arena(2560, {fixed(640)}, 2560);
  int c = m.arena(5120, {fixed(640)}, 2560);
  m.launch("increment", {x}, {c}, fixed(640), side);
  m.record(0, side);
  m.launch("increment", {x}, {a}, fixed(640));
  m.launch("twice", {a}, {b}, fixed(640));
  m.launch("add", {a, b}, {a}, fixed(640));
  m.super("layer", 3);
  m.wait(0, 0);
  m.launch("add", {a, c}, {m.output({fixed(640)})}, fixed(640));
  std::vector<float> expected;
  for (float v : iota(640))
    expected.push_back(4 * (v + 1));
  expectEachTime(m, {1, 2, 3, 7}, iota(640), expected, /*launches=*/3);
}

/// A region of one launch and one of a chain, chosen by an input. The null
/// device computes no predicate.
TEST_P(Conformance, RunsTheChosenRegion) {
  for (bool holds : {false, true}) {
    ProgramMaker m, fails, chain;
    int in = fails.input("x", {fixed(640)});
    fails.launch("increment", {in}, {fails.output({fixed(640)})}, fixed(640));
    in = chain.input("x", {fixed(640)});
    int a = chain.arena(0, {fixed(640)}, 2560);
    chain.launch("twice", {in}, {a}, fixed(640));
    chain.launch("add", {a, in}, {chain.output({fixed(640)})}, fixed(640));
    int x = m.input("x", {fixed(640)});
    int before = m.arena(0, {fixed(640)}, 2560);
    int chosen = m.arena(2560, {fixed(640)}, 2560);
    m.launch("increment", {x}, {before}, fixed(640));
    int regions[] = {m.region(std::move(fails)), m.region(std::move(chain))};
    BranchT &branch = m.branch(x, {regions[0], regions[1]}, {before}, {chosen});
    branch.predicate->kind = ArgKind::Int;
    branch.predicate->int_value = std::make_unique<Size>(fixed(holds));
    m.launch("twice", {chosen}, {m.output({fixed(640)})}, fixed(640));
    std::vector<float> expected;
    for (float v : iota(640, 1))
      expected.push_back(2 * (holds ? 3 * v : v + 1));
    expectEachTime(m, {1, 2, 3}, iota(640), expected, /*launches=*/2);
  }
}

/// A trip adds a slice to what it carries: the results are sums of the first
/// slices, in two buffers in turns.
TEST_P(Conformance, LoopsOverSlices) {
  for (int64_t trips : {0, 1, 2, 5}) {
    ProgramMaker m, body;
    int c = body.input("c", {fixed(3)}), x = body.input("x", {fixed(3)});
    int sum = body.output({fixed(3)});
    body.launch("add", {c, x}, {sum}, fixed(3));
    body.launch("add", {c, x}, {body.output({fixed(3)})}, fixed(3));
    int xs = m.input("xs", {fixed(trips), fixed(3)});
    int first = m.arena(0, {fixed(3)}, 64),
        result = m.arena(64, {fixed(3)}, 64);
    int spare = m.arena(128, {fixed(3)}, 64);
    int zero = m.input("zero", {fixed(3)});
    m.launch("twice", {zero}, {first}, fixed(3));
    m.loop(m.region(std::move(body)), trips, {first}, {xs}, {result},
           {m.output({fixed(trips), fixed(3)})}, {spare});
    m.launch("twice", {result}, {m.output({fixed(3)})}, fixed(3));
    auto executable = open(m);
    ASSERT_TRUE(executable);
    std::vector<float> slices = iota(static_cast<size_t>(trips * 3)), sums,
                       last(3);
    for (size_t i = 0; i < slices.size(); ++i)
      sums.push_back(last[i % 3] += slices[i]);
    Status s = run(*executable, {TensorArgument(slices, {trips, 3}),
                                 TensorArgument(std::vector<float>(3))});
    ASSERT_TRUE(s.ok()) << s.message();
    expectOutput(0, sums);
    for (float &value : last)
      value *= 2;
    expectOutput(1, last);
  }
}

/// A trip updates what it carries.
TEST_P(Conformance, LoopsUpdateWhatTheyCarry) {
  for (int64_t trips : {0, 1, 2, 5}) {
    ProgramMaker m, body;
    int c = body.input("c", {fixed(3)}, package::DType::F32, /*mutated=*/true);
    body.launch("increment", {c}, {c}, fixed(3));
    int x = m.input("x", {fixed(3)}), sum = m.arena(0, {fixed(3)}, 64);
    m.launch("add", {x, x}, {sum}, fixed(3));
    m.loop(m.region(std::move(body)), trips, {sum}, {}, {}, {}, {});
    m.p.streams[0]->commands[1]->action.AsLoop()->carried[0]->written = true;
    m.launch("add", {sum, x}, {m.output({fixed(3)})}, fixed(3));
    std::vector<float> expected;
    for (float value : iota(3))
      expected.push_back(3 * value + static_cast<float>(trips));
    expectEachTime(m, {1, 3}, iota(3), expected);
  }
}

TEST_P(Conformance, FollowsTheSizesOfTheInputs) {
  ProgramMaker m;
  m.p.slots = 2;
  m.p.sizes_function = "sizes";
  m.p.slot_sources = {SlotSource(0, 0, 0), SlotSource(0, 1, 0)};
  int x = m.input("x", {slot(0)});
  int y = m.input("y", {slot(0)});
  int a = m.buffer(BufferKind::Arena, {slot(0)}, package::DType::F32);
  m.p.buffers[a]->offset = std::make_unique<Size>(fixed(0));
  m.p.buffers[a]->bytes = std::make_unique<Size>(slot(1));
  *m.p.arena_bytes = slot(1);
  m.launch("increment", {x}, {a}, slot(0));
  m.launch("add", {a, y}, {m.output({slot(0)})}, slot(0));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  for (size_t n : {1, 5, 300, 0, 17, 100000, 5}) {
    Status s =
        run(*executable, {TensorArgument(iota(n)), TensorArgument(iota(n))});
    ASSERT_TRUE(s.ok()) << s.message();
    std::vector<float> expected;
    for (float v : iota(n))
      expected.push_back(2 * v + 1);
    EXPECT_EQ(results.shapes[0], std::vector<int64_t>{int64_t(n)});
    expectOutput(0, expected);
  }
  Status s =
      run(*executable, {TensorArgument(iota(4)), TensorArgument(iota(5))});
  EXPECT_EQ(s.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(s.message(),
            "argument 1 'y': expected shape [4], got [5]; dimension 0 (5) must "
            "equal dimension 0 of argument 0 'x' (4)");
}

TEST_P(Conformance, RefusesSizesForWhichPartsOfTheArenaOverlap) {
  ProgramMaker m;
  m.p.slots = 2;
  m.p.sizes_function = "sizes";
  m.p.slot_sources = {SlotSource(0, 0, 0)};
  int x = m.input("x", {slot(0)});
  auto part = [&](Size offset) {
    int b = m.buffer(BufferKind::Arena, {slot(0)}, package::DType::F32);
    m.p.buffers[b]->offset = std::make_unique<Size>(offset);
    m.p.buffers[b]->bytes = std::make_unique<Size>(slot(1));
    return b;
  };
  int a = part(fixed(0)), b = part(slot(0));
  *m.p.arena_bytes = fixed(1 << 20);
  m.launch("increment", {x}, {a}, slot(0));
  m.launch("increment", {a}, {b}, slot(0));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  Status s = run(*executable, {TensorArgument(iota(64))});
  EXPECT_EQ(s.message(), "parts of the arena overlap for these sizes");
  s = run(*executable, {TensorArgument(iota(1 << 19))});
  EXPECT_EQ(s.message(), "a buffer lies outside the arena for these sizes");
  s = run(*executable, {TensorArgument(iota(0))});
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST_P(Conformance, CopiesBetweenLayouts) {
  ProgramMaker m;
  int x = m.input("x", {fixed(3), fixed(4)});
  m.p.buffers[x]->strides = {fixed(1), fixed(3)};
  m.p.inputs[0]->strides = {fixed(1), fixed(3)};
  m.copy(x, m.output({fixed(3), fixed(4)}));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  TensorArgument arg(iota(12), {3, 4});
  InputValue value = arg.value();
  const int64_t strides[] = {1, 3};
  value.tensor.strides = strides;
  outputs.assign(1, {});
  Status s = executable->run(&value, 1, outputs.data(), 1, results);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(results.memory[0],
            (std::vector<float>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
}

TEST_P(Conformance, HandsBackAliasesScalarsAndNone) {
  ProgramMaker m;
  m.p.slots = 1;
  m.input("x", {fixed(2)});
  m.scalar("n", 0);
  m.otherOutput(OutputKind::Alias).index = 0;
  m.otherOutput(OutputKind::Scalar).scalar = std::make_unique<Size>(slot(0));
  m.otherOutput(OutputKind::None);
  auto executable = open(m);
  ASSERT_TRUE(executable);
  TensorArgument x({1, 2});
  InputValue values[2] = {x.value(), {}};
  values[1].kind = InputValue::Kind::Scalar;
  values[1].scalar = 42;
  OutputValue got[3];
  Status s = executable->run(values, 2, got, 3, results);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(got[0].kind, OutputValue::Kind::Alias);
  EXPECT_EQ(got[0].input, 0);
  EXPECT_EQ(got[1].kind, OutputValue::Kind::Scalar);
  EXPECT_EQ(got[1].scalar, 42);
  EXPECT_EQ(got[2].kind, OutputValue::Kind::None);
}

/// A float at any address.
float floatAt(const char *address) {
  float value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

TEST_P(Conformance, CopiesArgumentsThatAreNotAligned) {
  ProgramMaker m;
  int x = m.input("x", {fixed(4)});
  int y = m.input("y", {fixed(4)}, package::DType::F32, /*mutated=*/true);
  m.launch("increment", {x}, {y}, fixed(4));
  m.launch("increment", {y}, {m.output({fixed(4)})}, fixed(4));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  bool computes = anabranch::runtime::findDevice(GetParam())->computes();
  const std::vector<float> values = iota(4);
  const int64_t four = 4;
  for (size_t offset : {1, 2, 3, 0}) {
    std::vector<char> bytes(2 * 16 + 16, 77);
    char *first = bytes.data() + offset, *second = first + 20;
    std::memcpy(first, values.data(), 16);
    InputValue inputs[2];
    inputs[0].tensor = {first, &four, nullptr, 1, anabranch::DType::F32};
    inputs[1].tensor = {second, &four, nullptr, 1, anabranch::DType::F32};
    OutputValue output;
    uint64_t before = copiedArguments(*executable);
    Status s = executable->run(inputs, 2, &output, 1, results);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(copiedArguments(*executable) - before, offset ? 2u : 0u);
    expectOutput(0, {2, 3, 4, 5});
    for (size_t i = 0; i < 4 && computes; ++i)
      EXPECT_EQ(floatAt(second + 4 * i), values[i] + 1);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(floatAt(first + 4 * i), values[i]);
    for (const char *gap : {first + 16, first + 19, second + 16})
      EXPECT_EQ(*gap, 77);
  }
}

TEST_P(Conformance, ServesManyThreadsAtOnce) {
  // In a crowd each call would stay on its own thread.
  runtime::setExecutionMode(runtime::ExecutionMode::Shared);
  ProgramMaker m;
  int x = m.input("x", {fixed(2000)});
  int a = m.arena(0, {fixed(2000)}, 8000);
  m.launch("reverse", {x}, {a}, fixed(2000));
  m.launch("reverse", {a}, {m.output({fixed(2000)})}, fixed(2000));
  OpenOptions options;
  options.threads = 3;
  auto executable = open(m, options);
  ASSERT_TRUE(executable);
  bool computes = anabranch::runtime::findDevice(GetParam())->computes();
  expectOnThreads(6, [&](unsigned t) -> std::string {
    TensorArgument arg(iota(2000, static_cast<float>(t)));
    VectorAllocator mine;
    for (int i = 0; i < 50; ++i) {
      InputValue value = arg.value();
      OutputValue out;
      Status s = executable->run(&value, 1, &out, 1, mine);
      if (!s.ok())
        return s.message();
      if (computes && mine.memory[0] != arg.values)
        return "a call has the result of another";
    }
    return "";
  });
  runtime::setExecutionMode(std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, ::testing::Values("cpu", "null"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace anabranch::testing
