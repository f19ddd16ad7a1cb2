//===- HostCallsTest.cpp - operators that the host runs -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <functional>
#include <mutex>
#include <thread>

namespace anabranch::testing {

namespace {

/// A host with one operator, "test::negate(Tensor x, int[] sizes, float f)".
/// Its result has other strides than the program declares.
class Host : public HostCalls {
public:
  struct Made {
    std::vector<float> values;
    std::vector<int64_t> shape, strides;
  };

  Expected<void *> prepare(const char *op, const char *overload) override {
    if (std::string(op) != "test::negate")
      return Status(StatusCode::Unsupported,
                    std::string("there is no operator ") + op);
    return static_cast<void *>(this);
  }
  Status call(const HostCall &call, HostResult *results) override {
    EXPECT_EQ(call.prepared, this);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    if (fails)
      return Status(StatusCode::HostError, "negate failed");
    check(call);
    const TensorView &x = call.arguments[0].tensor;
    auto *made = new Made;
    made->shape.assign(x.shape, x.shape + x.rank);
    made->values.resize(12);
    made->strides =
        transposes ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{4, 1};
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j)
        made->values[i * made->strides[0] + j * made->strides[1]] =
            -static_cast<const float *>(
                x.data)[i * x.strides[0] + j * x.strides[1]];
    if (wrongShape)
      made->shape[0] = 2;
    results[0].handle = made;
    results[0].tensor = {made->values.data(), made->shape.data(),
                         made->strides.data(), 2, anabranch::DType::F32};
    ++alive;
    return {};
  }
  void release(void *handle) override {
    delete static_cast<Made *>(handle);
    --alive;
  }
  void *retain(void *handle) override {
    ++alive;
    return new Made(*static_cast<Made *>(handle));
  }

  bool fails = false, transposes = false, wrongShape = false;
  int alive = 0;
  std::thread::id caller = std::this_thread::get_id();

private:
  void check(const HostCall &call) {
    ASSERT_EQ(call.argumentCount, 3u);
    EXPECT_STREQ(call.arguments[0].name, "x");
    ASSERT_EQ(call.arguments[1].kind, HostArgument::Kind::List);
    ASSERT_EQ(call.arguments[1].itemCount, 2u);
    EXPECT_EQ(call.arguments[1].items[0].integer, 12);
    EXPECT_EQ(call.arguments[1].items[1].integer, 7);
    EXPECT_EQ(call.arguments[2].real, 0.5);
    EXPECT_EQ(call.resultCount, 2u);
    EXPECT_TRUE(call.wanted[0]);
    EXPECT_FALSE(call.wanted[1]);
    EXPECT_STREQ(call.location, "model.py:8");
  }
};

std::unique_ptr<ArgumentT> argument(const char *name, ArgKind kind) {
  auto a = std::make_unique<ArgumentT>();
  a->name = name;
  a->kind = kind;
  return a;
}

void addCall(ProgramMaker &m, int x, int result) {
  CallT call;
  call.op = "test::negate";
  call.arguments.push_back(argument("x", ArgKind::Tensor));
  call.arguments[0]->buffer = x;
  call.arguments.push_back(argument("sizes", ArgKind::List));
  for (Size size : {slot(0), fixed(7)}) {
    call.arguments[1]->items.push_back(argument("", ArgKind::Int));
    call.arguments[1]->items.back()->int_value = std::make_unique<Size>(size);
  }
  call.arguments.push_back(argument("f", ArgKind::Float));
  call.arguments[2]->float_value = 0.5;
  call.results = {result, -1};
  m.push(std::move(call), 0).location = m.location("negate");
  m.p.needs_libtorch = true;
}

class HostCallsTest : public ::testing::Test {
protected:
  /// The program: y = increment(negate(increment(x))). It also returns the
  /// negated tensor.
  void SetUp() override {
    m.p.slots = 1;
    m.p.slot_sources = {SlotSource(0, 0, 0)};
    int x = m.input("x", {slot(0)});
    int a = m.arena(0, {fixed(3), fixed(4)}, 64);
    int made = m.external({fixed(3), fixed(4)});
    m.launch("increment", {x}, {a}, slot(0));
    addCall(m, a, made);
    m.launch("increment", {made}, {m.output({slot(0)})}, fixed(12));
    m.otherOutput(OutputKind::External).buffer = made;
  }
  std::shared_ptr<const Executable> open(int threads = 1) {
    Status written = writeTestPackage(folder.path + "/p", m);
    EXPECT_TRUE(written.ok()) << written.message();
    OpenOptions options;
    options.hostCalls = &host;
    options.threads = threads;
    auto executable = Executable::open(folder.path + "/p", options);
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    return executable ? *executable : nullptr;
  }
  Status run(const Executable &executable) {
    TensorArgument arg(iota(12));
    InputValue value = arg.value();
    outputs.assign(executable.outputs().size(), {});
    return executable.run(&value, 1, outputs.data(), outputs.size(), results);
  }
  std::vector<float> expected(float scale, float offset) {
    std::vector<float> values;
    for (float v : iota(12))
      values.push_back(scale * v + offset);
    return values;
  }
  TemporaryFolder folder;
  ProgramMaker m;
  Host host;
  VectorAllocator results;
  std::vector<OutputValue> outputs;
};

TEST_F(HostCallsTest, MixesWithKernels) {
  for (int threads : {1, 2})
    for (bool transposes : {false, true}) {
      host.transposes = transposes;
      auto executable = open(threads);
      for (int i = 0; i < 20; ++i) {
        Status s = run(*executable);
        ASSERT_TRUE(s.ok()) << s.message();
        EXPECT_EQ(results.memory[0], expected(-1, 0));
        EXPECT_EQ(outputs[1].kind, OutputValue::Kind::External);
        EXPECT_EQ(outputs[1].tensor.strides[0], transposes ? 1 : 4);
        ASSERT_EQ(host.alive, 1);
        host.release(outputs[1].handle);
      }
    }
}

TEST_F(HostCallsTest, RefusedWithoutAHost) {
  ASSERT_TRUE(writeTestPackage(folder.path + "/p", m).ok());
  auto executable = Executable::open(folder.path + "/p");
  EXPECT_EQ(executable.status().message(),
            "the package needs PyTorch for: test::negate");
}

TEST_F(HostCallsTest, UnknownOperatorsRefuseThePackage) {
  m.p.streams[0]->commands[1]->action.AsCall()->op = "test::other";
  ASSERT_TRUE(writeTestPackage(folder.path + "/p", m).ok());
  OpenOptions options;
  options.hostCalls = &host;
  EXPECT_EQ(Executable::open(folder.path + "/p", options).status().message(),
            "there is no operator test::other");
}

TEST_F(HostCallsTest, AFailureEndsTheCallAndLeaksNothing) {
  auto executable = open();
  host.fails = true;
  Status s = run(*executable);
  EXPECT_EQ(s.code(), StatusCode::HostError);
  EXPECT_EQ(s.message(), "negate failed (negate at model.py:8 in forward)");
  host.fails = false;
  host.wrongShape = true;
  s = run(*executable);
  EXPECT_EQ(s.message(), "test::negate returned f32[2, 4] where the program "
                         "expects f32[3, 4] (negate at model.py:8 in forward)");
  EXPECT_EQ(host.alive, 0);
  host.wrongShape = false;
  EXPECT_TRUE(run(*executable).ok());
  host.release(outputs[1].handle);
  EXPECT_EQ(host.alive, 0);
}

TEST_F(HostCallsTest, WhatNoKernelReadsMayDifferFromTheProgram) {
  m.p.streams[0]->commands.back()->action.AsLaunch()->buffers[0] = 0;
  auto executable = open();
  ASSERT_TRUE(executable);
  host.wrongShape = true;
  Status s = run(*executable);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(outputs[1].kind, OutputValue::Kind::External);
  EXPECT_EQ(outputs[1].tensor.shape[0], 2);
  host.release(outputs[1].handle);
  EXPECT_EQ(host.alive, 0);
}

TEST_F(HostCallsTest, OneResultMayBeSeveralOutputs) {
  m.otherOutput(OutputKind::External).buffer = 2;
  auto executable = open();
  ASSERT_TRUE(run(*executable).ok());
  EXPECT_NE(outputs[1].handle, outputs[2].handle);
  EXPECT_EQ(host.alive, 2);
  host.release(outputs[1].handle);
  host.release(outputs[2].handle);
}

/// A host whose operator adds one to each element of its argument.
class WritingHost : public HostCalls {
public:
  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &call, HostResult *) override {
    const TensorView &x = call.arguments[0].tensor;
    EXPECT_EQ(call.resultCount, 0u);
    for (int64_t i = 0; i < x.shape[0]; ++i)
      static_cast<float *>(x.data)[i * x.strides[0]] += 1;
    return {};
  }
  void release(void *) override {}
};

void addWrite(ProgramMaker &m, int buffer, Size count, Size stride,
              Size begin) {
  CallT call;
  call.op = "test::bump";
  call.ordered = true;
  call.arguments.push_back(argument("x", ArgKind::Tensor));
  ArgumentT &x = *call.arguments[0];
  x.buffer = buffer;
  x.written = true;
  x.view = std::make_unique<ViewT>();
  x.view->offset = std::make_unique<Size>(begin);
  x.view->shape = {count};
  x.view->strides = {stride};
  m.push(std::move(call), 0).location = m.location("bump");
  m.p.needs_libtorch = true;
}

/// Operators write every third element of the caller's tensor, and of a copy.
TEST(WritingCallsTest, WriteViewsOfBuffersWhereTheyLie) {
  ProgramMaker m;
  m.p.slots = 1;
  m.p.slot_sources = {SlotSource(0, 0, 0)};
  int x = m.input("x", {slot(0)}, package::DType::F32, true);
  int y = m.output({slot(0)});
  addWrite(m, x, fixed(2), fixed(3), fixed(1));
  m.launch("increment", {x}, {y}, slot(0));
  addWrite(m, y, fixed(1), slot(0), fixed(0));
  PackageFolder folder;
  WritingHost host;
  OpenOptions options;
  options.hostCalls = &host;
  auto executable = folder.open(m, options);
  ASSERT_TRUE(executable);
  for (size_t size : {5, 7}) {
    TensorArgument given(iota(size));
    InputValue value = given.value();
    VectorAllocator results;
    OutputValue output;
    Status s = executable->run(&value, 1, &output, 1, results);
    ASSERT_TRUE(s.ok()) << s.message();
    std::vector<float> wanted = iota(size);
    wanted[1] += 1;
    wanted[4] += 1;
    EXPECT_EQ(given.values, wanted);
    for (float &element : wanted)
      element += 1;
    wanted[0] += 1;
    EXPECT_EQ(results.memory[0], wanted);
  }
  TensorArgument small(iota(4));
  InputValue value = small.value();
  VectorAllocator results;
  OutputValue output;
  EXPECT_EQ(executable->run(&value, 1, &output, 1, results).message(),
            "a part of a buffer ends past it for these sizes");
  EXPECT_EQ(small.values, iota(4));
}

} // namespace
} // namespace anabranch::testing
