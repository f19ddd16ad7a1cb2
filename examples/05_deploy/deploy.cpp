//===- deploy.cpp - a C++ program that runs a package ---------------------===//
// SPDX-License-Identifier: Apache-2.0

// Usage: deploy PACKAGE [CALLS] [SIZE]. Fills every input with ones, dynamic
// sizes being SIZE, calls CALLS times, keeps state from call to call, and
// prints the outputs and the times. Links the runtime only: no Python, no
// PyTorch, no compiler.

#include <anabranch/Executable.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace anabranch;
using Clock = std::chrono::steady_clock;

namespace {

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

/// A tensor with memory of its own.
struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  void allocate() {
    size_t count = itemSize(dtype);
    for (int64_t size : shape)
      count *= static_cast<size_t>(size);
    bytes.resize(count);
  }
  template <typename T> void fill(T value) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T))
      std::memcpy(&bytes[at], &value, sizeof(T));
  }
  void fillWithOnes() {
    switch (itemSize(dtype)) {
    case 8:
      return dtype == DType::F64 ? fill(1.0) : fill(int64_t(1));
    case 4:
      return dtype == DType::F32 ? fill(1.0f) : fill(int32_t(1));
    case 2: // the bits of one in both half-precision formats
      return fill(int16_t(dtype == DType::BF16  ? 0x3f80
                          : dtype == DType::F16 ? 0x3c00
                                                : 1));
    default:
      return fill(char(1));
    }
  }
  TensorView view() {
    return {bytes.data(), shape.data(), nullptr,
            static_cast<int32_t>(shape.size()), dtype};
  }
};

/// Gives every output an array.
class Outputs : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    arrays.resize(count);
    for (size_t i = 0; i < count; ++i) {
      TensorView &tensor = outputs[i].tensor;
      if (outputs[i].kind != OutputValue::Kind::Tensor)
        continue;
      arrays[i].dtype = tensor.dtype;
      arrays[i].shape.assign(tensor.shape, tensor.shape + tensor.rank);
      arrays[i].allocate();
      tensor.data = arrays[i].bytes.data();
    }
    return {};
  }
  std::vector<Array> arrays;
};

/// An input as the package asks for it: ones, or a state's first value.
Array makeInput(const InputInfo &info, int64_t anySize) {
  Array array;
  array.dtype = info.dtype;
  array.shape = info.shape;
  for (int64_t &size : array.shape)
    size = size < 0 ? anySize : size;
  array.allocate();
  if (info.initial)
    std::memcpy(array.bytes.data(), info.initial, array.bytes.size());
  else
    array.fillWithOnes();
  return array;
}

void print(const OutputInfo &info, const OutputValue &value,
           const Array &array) {
  std::printf("%s:", info.name.c_str());
  if (value.kind == OutputValue::Kind::Scalar)
    std::printf(" %lld", static_cast<long long>(value.scalar));
  for (int64_t size : array.shape)
    std::printf(" %lld", static_cast<long long>(size));
  double sum = 0;
  for (size_t at = 0; array.dtype == DType::F32 && at < array.bytes.size();
       at += sizeof(float)) {
    float number;
    std::memcpy(&number, &array.bytes[at], sizeof(number));
    sum += number;
  }
  std::printf(" sum %g\n", sum);
}

Status deploy(const char *path, int calls, int64_t anySize, bool trust) {
  Clock::time_point start = Clock::now();
  OpenOptions options;
  options.checkHashes = !trust;
  auto executable = Executable::open(path, options);
  if (!executable)
    return executable.takeStatus();
  double opened = milliseconds(start);
  std::vector<Array> arrays;
  std::vector<InputValue> inputs;
  for (const InputInfo &info : (*executable)->inputs())
    arrays.push_back(makeInput(info, anySize));
  for (size_t i = 0; i < arrays.size(); ++i) {
    InputValue value;
    value.tensor = arrays[i].view();
    if ((*executable)->inputs()[i].isScalar) {
      value.kind = InputValue::Kind::Scalar;
      value.scalar = anySize;
    }
    inputs.push_back(value);
  }
  const std::vector<OutputInfo> &infos = (*executable)->outputs();
  std::vector<OutputValue> results(infos.size());
  Outputs outputs;
  double first = 0;
  for (int call = 0; call < calls; ++call) {
    if (Status s = (*executable)
                       ->run(inputs.data(), inputs.size(), results.data(),
                             results.size(), outputs);
        !s.ok())
      return s;
    if (call == 0)
      first = milliseconds(start);
  }
  for (size_t i = 0; i < infos.size(); ++i)
    print(infos[i], results[i], outputs.arrays[i]);
  std::fprintf(stderr, "open %.2f ms, first result after %.2f ms\n", opened,
               first);
  return {};
}

} // namespace

int main(int argc, char **argv) {
  bool trust = argc > 2 && std::strcmp(argv[argc - 1], "trust") == 0;
  argc -= trust;
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: deploy PACKAGE [CALLS] [SIZE] [trust]\n");
    return 2;
  }
  int calls = argc > 2 ? std::atoi(argv[2]) : 1;
  int64_t size = argc > 3 ? std::atoll(argv[3]) : 8;
  Status s = deploy(argv[1], calls, size, trust);
  if (!s.ok())
    std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
