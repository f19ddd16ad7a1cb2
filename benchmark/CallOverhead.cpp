//===- CallOverhead.cpp - what a call costs beside its kernels, from C++ --===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "package/TestPrograms.h"

#include "anabranch/Executable.h"

#include <benchmark/benchmark.h>
#include <vector>

using namespace anabranch;
using namespace anabranch::testing;

namespace {

/// `kernels` kernels of four elements each over a row of `inputs` tensors.
ProgramMaker program(int inputs, int kernels, Size size) {
  ProgramMaker m;
  if (size.slot() >= 0) {
    m.p.slots = 1;
    m.p.slot_sources = {SlotSource(0, 0, 0)};
  }
  std::vector<int> all;
  for (int i = 0; i < inputs; ++i)
    all.push_back(m.input("x" + std::to_string(i), {size, fixed(1)}));
  int from = all[0];
  for (int k = 0; k < kernels; ++k) {
    bool last = k + 1 == kernels;
    int to = last ? m.output({size, fixed(1)})
                  : m.arena(64 * (k % 8), {fixed(4)}, 64);
    m.launch("add", {from, all[k % inputs]}, {to}, size);
    from = to;
  }
  return m;
}

class OneBlock : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      outputs[i].tensor.data = memory;
    return {};
  }
  alignas(64) float memory[16];
};

void measure(benchmark::State &state, const ProgramMaker &maker) {
  TemporaryFolder folder;
  Contents contents;
  contents.program = &maker.p;
  contents.kernelsPath = ANABRANCH_TEST_KERNELS;
  Status written = writePackage(folder.path + "/p", contents);
  auto executable = Executable::open(folder.path + "/p");
  if (!written.ok() || !executable) {
    state.SkipWithError("the package cannot be made");
    return;
  }
  float values[4] = {1, 2, 3, 4};
  const int64_t shape[2] = {4, 1}, strides[2] = {1, 1};
  std::vector<InputValue> inputs(maker.p.inputs.size());
  for (InputValue &input : inputs)
    input.tensor = {values, shape, strides, 2, anabranch::DType::F32};
  OutputValue output;
  OneBlock allocator;
  for (auto _ : state)
    if (!(*executable)
             ->run(inputs.data(), inputs.size(), &output, 1, allocator)
             .ok())
      state.SkipWithError("the call failed");
}

void callStatic(benchmark::State &state) {
  measure(state, program(static_cast<int>(state.range(0)),
                         static_cast<int>(state.range(1)), fixed(4)));
}

void callDynamic(benchmark::State &state) {
  measure(state, program(static_cast<int>(state.range(0)),
                         static_cast<int>(state.range(1)), slot(0)));
}

// Arguments: input tensors, kernels.
BENCHMARK(callStatic)
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 10})
    ->Args({8, 200});
BENCHMARK(callDynamic)->Args({1, 1})->Args({8, 1})->Args({8, 200});

} // namespace

BENCHMARK_MAIN();
