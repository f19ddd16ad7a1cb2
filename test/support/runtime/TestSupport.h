//===- TestSupport.h - programs for the runtime's tests ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTSUPPORT_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTSUPPORT_H

#include "anabranch/Executable.h"
#include "support/machine/UsualFeature.h"
#include "support/package/TestPrograms.h"
#include "support/process/ThreadSanitizer.h"

#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace anabranch::testing {

/// The value of an environment variable that makes a test run longer, or
/// `otherwise`.
inline int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

/// Writes the program as a package with the test kernels.
inline Status writeTestPackage(const std::string &path,
                               const ProgramMaker &maker) {
  Contents contents;
  contents.program = &maker.p;
#ifdef ANABRANCH_TEST_KERNELS
  if (!maker.p.kernels.empty() || !maker.p.sizes_function.empty())
    contents.kernelsPath = ANABRANCH_TEST_KERNELS;
#endif
  contents.constants = maker.constants;
  contents.targetCpu = machine::hostCpu();
  contents.targetFeatures = {machine::usualFeature()};
  return writePackage(path, contents);
}

/// Allocates outputs as vectors, which a test can read.
class VectorAllocator : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    ++calls;
    if (fails)
      return Status(StatusCode::OutOfMemory, "no memory, says the test");
    memory.resize(count);
    shapes.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (outputs[i].kind == OutputValue::Kind::Tensor)
        give(outputs[i].tensor, i);
    return {};
  }
  Status allocateFound(OutputValue &output, size_t index) override {
    if (failsAtEnd)
      return Status(StatusCode::OutOfMemory, "no memory, says the test");
    give(output.tensor, index);
    return {};
  }
  bool fails = false, failsAtEnd = false;
  int calls = 0;
  std::vector<std::vector<float>> memory;
  std::vector<std::vector<int64_t>> shapes;

private:
  void give(TensorView &t, size_t index) {
    shapes[index].assign(t.shape, t.shape + t.rank);
    size_t elements = 1;
    for (int64_t size : shapes[index])
      elements *= static_cast<size_t>(size);
    memory[index].assign(elements * itemSize(t.dtype) / sizeof(float), -99.0f);
    t.data = memory[index].data();
  }
};

/// An argument with the elements of a vector. It keeps its shape alive.
struct TensorArgument {
  TensorArgument(std::vector<float> values, std::vector<int64_t> shape)
      : values(std::move(values)), shape(std::move(shape)) {}
  explicit TensorArgument(std::vector<float> v) : values(std::move(v)) {
    shape = {static_cast<int64_t>(values.size())};
  }
  InputValue value() {
    InputValue v;
    v.tensor.data = values.data();
    v.tensor.shape = shape.data();
    v.tensor.rank = static_cast<int32_t>(shape.size());
    return v;
  }
  std::vector<float> values;
  std::vector<int64_t> shape;
};

/// Writes programs as packages in a folder of its own, and opens them.
class PackageFolder {
public:
  /// Writes the program and returns the path of its package.
  std::string write(const ProgramMaker &maker) {
    std::string path = folder.path + "/p" + std::to_string(count++);
    Status written = writeTestPackage(path, maker);
    EXPECT_TRUE(written.ok()) << written.message();
    return path;
  }
  /// The executable of a valid program. If it cannot be opened, the test fails
  /// and the result is null.
  std::shared_ptr<const Executable> open(const ProgramMaker &maker,
                                         const OpenOptions &options = {}) {
    auto executable = Executable::open(write(maker), options);
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    return executable ? *executable : nullptr;
  }

private:
  TemporaryFolder folder;
  int count = 0;
};

/// Calls `body(0)` to `body(count - 1)`, each on a thread of its own. A body
/// returns what went wrong, or an empty text.
inline void expectOnThreads(unsigned count,
                            const std::function<std::string(unsigned)> &body) {
  std::vector<std::string> wrong(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t)
    threads.emplace_back([&, t] { wrong[t] = body(t); });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &what : wrong)
    EXPECT_EQ(what, "");
}

/// A program whose output is its input `x` of `count` floats, plus one each.
inline ProgramMaker incrementProgram(int64_t count) {
  ProgramMaker m;
  int x = m.input("x", {fixed(count)});
  m.launch("increment", {x}, {m.output({fixed(count)})}, fixed(count));
  return m;
}

inline std::vector<float> iota(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_RUNTIME_TESTSUPPORT_H
