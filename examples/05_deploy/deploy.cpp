//===- deploy.cpp - a C++ program that runs a package ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

// Usage: deploy PACKAGE. Fills every input with ones and prints the sums of the
// outputs. Links the runtime only: no Python, no PyTorch, no compiler.

#include <anabranch/Executable.h>

#include <cstdio>
#include <numeric>
#include <vector>

using namespace anabranch;

namespace {

size_t elements(const int64_t *shape, int32_t rank) {
  return static_cast<size_t>(std::accumulate(shape, shape + rank, int64_t(1),
                                             std::multiplies<int64_t>()));
}

/// Gives every output a vector of floats.
class Outputs : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    values.resize(count);
    for (size_t i = 0; i < count; ++i) {
      TensorView &tensor = outputs[i].tensor;
      if (outputs[i].kind != OutputValue::Kind::Tensor)
        continue;
      if (tensor.dtype != DType::F32)
        return Status(StatusCode::TypeError, "this example wants f32 outputs");
      values[i].resize(elements(tensor.shape, tensor.rank));
      tensor.data = values[i].data();
    }
    return {};
  }
  std::vector<std::vector<float>> values;
};

Status deploy(const char *path) {
  auto executable = Executable::open(path);
  if (!executable)
    return executable.takeStatus();
  std::vector<InputValue> inputs;
  std::vector<std::vector<float>> memory;
  for (const InputInfo &info : (*executable)->inputs()) {
    auto rank = static_cast<int32_t>(info.shape.size());
    memory.emplace_back(elements(info.shape.data(), rank), 1.0f);
    InputValue input;
    input.tensor = {memory.back().data(), info.shape.data(), nullptr, rank,
                    info.dtype};
    inputs.push_back(input);
  }
  std::vector<OutputValue> results((*executable)->outputs().size());
  Outputs outputs;
  if (Status s = (*executable)
                     ->run(inputs.data(), inputs.size(), results.data(),
                           results.size(), outputs);
      !s.ok())
    return s;
  for (const std::vector<float> &values : outputs.values)
    std::printf("%g\n", std::accumulate(values.begin(), values.end(), 0.0));
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: deploy PACKAGE\n");
    return 2;
  }
  Status s = deploy(argv[1]);
  if (!s.ok())
    std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
