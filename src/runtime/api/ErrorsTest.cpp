//===- ErrorsTest.cpp - one test per mistake of a caller ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <sys/resource.h>

// Makes allocations that are too large fail under a sanitizer too, instead of
// ending the tests.
extern "C" const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char *__tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace anabranch::testing {

namespace {

class Errors : public ::testing::Test, protected PackageFolder {
protected:
  void expect(const Status &s, StatusCode code, const std::string &message) {
    EXPECT_EQ(static_cast<int>(s.code()), static_cast<int>(code));
    EXPECT_EQ(s.message(), message);
  }
  VectorAllocator results;
};

TEST_F(Errors, WhatIsWrittenIsNoOtherArgumentToo) {
  ProgramMaker m;
  int x = m.input("x", {fixed(4)});
  int y = m.input("y", {fixed(4)}, package::DType::F32, /*mutated=*/true);
  m.launch("increment", {x}, {y}, fixed(4));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  TensorArgument memory(iota(12), {12});
  const int64_t four = 4;
  auto part = [&](int64_t first) {
    InputValue value = memory.value();
    value.tensor.data = static_cast<float *>(value.tensor.data) + first;
    value.tensor.shape = &four;
    return value;
  };
  InputValue apart[2] = {part(0), part(4)}, across[2] = {part(0), part(3)};
  expect(executable->run(across, 2, nullptr, 0, results),
         StatusCode::InvalidArgument,
         "argument 0 'x' shares memory with argument 1 'y', which the program "
         "writes; pass a copy of one");
  EXPECT_TRUE(executable->run(apart, 2, nullptr, 0, results).ok());
}

TEST_F(Errors, ImpossibleSizesAreRefusedBeforeAnyWrite) {
  ProgramMaker m;
  m.p.slots = 1;
  int x = m.input("x", {fixed(4)});
  m.scalar("n", 0);
  m.launch("increment", {x}, {m.output({slot(0), slot(0)})}, fixed(4));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  TensorArgument four(iota(4));
  for (int64_t n : {int64_t(-2), int64_t(1) << 31, int64_t(1) << 40}) {
    InputValue values[2] = {four.value(), {}};
    values[1].kind = InputValue::Kind::Scalar;
    values[1].scalar = n;
    OutputValue output;
    std::string size = std::to_string(n);
    expect(executable->run(values, 2, &output, 1, results),
           StatusCode::InvalidArgument,
           "for these arguments a tensor would have the impossible shape [" +
               size + ", " + size + "]");
  }
  EXPECT_EQ(results.calls, 0);
}

TEST_F(Errors, WrongArgumentsAreNamedBeforeAnyWrite) {
  ProgramMaker m;
  m.p.slots = 1;
  int x = m.input("x", {fixed(2), fixed(3)});
  m.scalar("n", 0);
  m.launch("increment", {x}, {m.output({fixed(2), fixed(3)})}, fixed(6));
  auto executable = open(m);
  ASSERT_TRUE(executable);
  TensorArgument good(iota(6), {2, 3});
  OutputValue out;
  auto run = [&](TensorView tensor, bool scalarFirst = false) {
    InputValue values[2] = {good.value(), {}};
    values[0].tensor = tensor;
    values[1].kind = InputValue::Kind::Scalar;
    if (scalarFirst)
      std::swap(values[0], values[1]);
    return executable->run(values, 2, &out, 1, results);
  };
  TensorView tensor = good.value().tensor;
  EXPECT_TRUE(run(tensor).ok());
  results.calls = 0;

  TensorView other = tensor;
  other.dtype = anabranch::DType::I32;
  expect(run(other), StatusCode::TypeError,
         "argument 0 'x': expected dtype f32, got i32");
  other = tensor;
  other.rank = 1;
  expect(run(other), StatusCode::InvalidArgument,
         "argument 0 'x': expected 2 dimensions, got shape [2]");
  const int64_t wrongShape[] = {3, 2}, wrongStrides[] = {1, 2};
  other = tensor;
  other.shape = wrongShape;
  expect(run(other), StatusCode::InvalidArgument,
         "argument 0 'x': expected shape [2, 3], got [3, 2]");
  other = tensor;
  other.strides = wrongStrides;
  expect(run(other), StatusCode::InvalidArgument,
         "argument 0 'x': expected a contiguous tensor, got strides [1, 2] for "
         "shape [2, 3]");
  other = tensor;
  other.data = nullptr;
  expect(run(other), StatusCode::InvalidArgument,
         "argument 0 'x': it has no memory");
  expect(run(tensor, /*scalarFirst=*/true), StatusCode::TypeError,
         "argument 0 'x': expected a tensor, got an int");
  InputValue one = good.value();
  expect(executable->run(&one, 1, &out, 1, results), StatusCode::TypeError,
         "expected 2 arguments, got 1");
  EXPECT_EQ(results.calls, 0) << "outputs were asked for before the checks";
  EXPECT_TRUE(run(tensor).ok());
}

TEST_F(Errors, StridesOfSingleElementsDoNotMatter) {
  ProgramMaker m;
  int x = m.input("x", {fixed(1), fixed(4)});
  m.launch("increment", {x}, {m.output({fixed(4)})}, fixed(4));
  auto executable = open(m);
  TensorArgument arg(iota(4), {1, 4});
  const int64_t strides[] = {77, 1};
  InputValue value = arg.value();
  value.tensor.strides = strides;
  OutputValue out;
  Status s = executable->run(&value, 1, &out, 1, results);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST_F(Errors, AKernelsErrorNamesTheUsersLine) {
  ProgramMaker m;
  int table = m.input("table", {fixed(8)});
  int index = m.input("index", {fixed(100)}, package::DType::I64);
  int a = m.arena(0, {fixed(100)}, 448);
  m.launch("gather", {table, index}, {a}, fixed(100));
  m.launch("increment", {a}, {m.output({fixed(100)})}, fixed(100));
  for (int threads : {1, 3}) {
    OpenOptions options;
    options.threads = threads;
    auto executable = open(m, options);
    TensorArgument tableArgument(iota(8));
    std::vector<int64_t> indices(100, 3), shape{100};
    InputValue values[2] = {tableArgument.value(), {}};
    values[1].tensor = {indices.data(), shape.data(), nullptr, 1,
                        anabranch::DType::I64};
    OutputValue out;
    for (int i = 0; i < 50; ++i) {
      indices[50] = i % 2 ? 8 : 3;
      Status s = executable->run(values, 2, &out, 1, results);
      if (i % 2)
        expect(s, StatusCode::IndexError,
               "index out of range in gather at model.py:7 in forward");
      else
        EXPECT_TRUE(s.ok()) << s.message();
    }
  }
}

TEST_F(Errors, OutOfMemoryFailsOneCallOnly) {
  ProgramMaker m;
  m.p.slots = 1;
  m.p.slot_sources = {SlotSource(0, 0, 0)};
  int x = m.input("x", {slot(0)});
  m.launch("greedy", {x}, {m.output({slot(0)})}, slot(0));
  auto executable = open(m);
  OutputValue out;
  for (size_t n : {10, 2000, 10, 2000}) {
    TensorArgument arg(iota(n));
    InputValue value = arg.value();
    Status s = executable->run(&value, 1, &out, 1, results);
    if (n == 2000)
      expect(s, StatusCode::OutOfMemory, "out of memory");
    else
      EXPECT_TRUE(s.ok()) << s.message();
  }
  results.fails = true;
  TensorArgument arg(iota(10));
  InputValue value = arg.value();
  expect(executable->run(&value, 1, &out, 1, results), StatusCode::OutOfMemory,
         "no memory, says the test");
  results.fails = false;
  EXPECT_TRUE(executable->run(&value, 1, &out, 1, results).ok());
}

TEST_F(Errors, AHugeArenaIsRefusedAtTheCall) {
  ProgramMaker m;
  int x = m.input("x", {fixed(4)});
  int a = m.arena(0, {fixed(4)}, 64);
  *m.p.arena_bytes = fixed(int64_t(1) << 60);
  m.launch("increment", {x}, {a}, fixed(4));
  m.launch("increment", {a}, {m.output({fixed(4)})}, fixed(4));
  auto executable = open(m);
  TensorArgument arg(iota(4));
  InputValue value = arg.value();
  OutputValue out;
  expect(executable->run(&value, 1, &out, 1, results), StatusCode::OutOfMemory,
         "out of memory");
}

TEST_F(Errors, OpenSaysWhyNot) {
  auto reason = [](const std::string &path, OpenOptions options = {}) {
    return Executable::open(path, options).status().message();
  };
  EXPECT_EQ(reason("/nowhere"),
            "cannot open package /nowhere: No such file or directory");
  OpenOptions options;
  options.device = "abacus";
  EXPECT_EQ(reason("/nowhere", options),
            "there is no device 'abacus', only: cpu, null");

  ProgramMaker m;
  int x = m.input("x", {fixed(4)});
  m.launch("missing", {x}, {m.output({fixed(4)})}, fixed(4));
  TemporaryFolder folder;
  std::string path = folder.path + "/p";
  ASSERT_TRUE(writeTestPackage(path, m).ok());
  EXPECT_EQ(reason(path), "kernels.so lacks the kernel missing");
}

TEST_F(Errors, ANewPackageAtAnOldPathIsTheNewOne) {
  TemporaryFolder folder;
  std::string path = folder.path + "/p";
  std::vector<std::shared_ptr<const Executable>> all;
  for (const char *kernel : {"increment", "twice", "increment", "twice"}) {
    ProgramMaker m;
    int x = m.input("x", {fixed(4)});
    m.launch(kernel, {x}, {m.output({fixed(4)})}, fixed(4));
    ASSERT_TRUE(writeTestPackage(path, m).ok());
    auto executable = Executable::open(path);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    all.push_back(*executable);
  }
  TensorArgument arg({3, 3, 3, 3});
  InputValue value = arg.value();
  OutputValue out;
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(all[i]->run(&value, 1, &out, 1, results).ok());
    EXPECT_EQ(results.memory[0][0], i % 2 ? 6 : 4);
  }
}

} // namespace
} // namespace anabranch::testing
