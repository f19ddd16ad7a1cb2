//===- CallOverhead.cpp - what a call costs beside its kernels, from C++ --===//
// SPDX-License-Identifier: Apache-2.0

#include "support/package/TestPrograms.h"

#include "anabranch/Executable.h"

#include <benchmark/benchmark.h>
#include <vector>

using namespace anabranch;
using namespace anabranch::testing;

namespace {

/// Of the test kernels; of the chains.
constexpr int tileElements = 16, mostTiles = 64;

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

/// `kernels` kernels of so many small tiles after each other: as launches, or
/// as one super kernel, in which a tile waits for one tile.
ProgramMaker chain(int kernels, int tiles, bool super) {
  ProgramMaker m;
  Size size = fixed(int64_t(tileElements) * tiles);
  int64_t bytes = size.value() * 4;
  int from = m.input("x", {size, fixed(1)});
  for (int k = 0; k < kernels; ++k) {
    bool last = k + 1 == kernels;
    int to = last ? m.output({size, fixed(1)})
                  : m.arena(bytes * (k % 2), {size}, bytes);
    m.launch("increment", {from}, {to}, size);
    from = to;
  }
  m.work("increment", 2000, {0}); // else tiles would share an item
  if (super)
    m.super("chain", kernels);
  return m;
}

class OneBlock : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      outputs[i].tensor.data = memory;
    return {};
  }
  alignas(64) float memory[tileElements * mostTiles];
};

void measure(benchmark::State &state, const ProgramMaker &maker,
             int threads = 0) {
  TemporaryFolder folder;
  Contents contents;
  contents.program = &maker.p;
  contents.kernelsPath = ANABRANCH_TEST_KERNELS;
  Status written = writePackage(folder.path + "/p", contents);
  OpenOptions options;
  options.threads = threads;
  auto executable = Executable::open(folder.path + "/p", options);
  if (!written.ok() || !executable) {
    state.SkipWithError("the package cannot be made");
    return;
  }
  static float values[tileElements * mostTiles] = {1, 2, 3, 4};
  const int64_t rows = maker.p.inputs[0]->shape[0].slot() < 0
                           ? maker.p.inputs[0]->shape[0].value()
                           : 4;
  const int64_t shape[2] = {rows, 1}, strides[2] = {1, 1};
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

void callChain(benchmark::State &state) {
  auto kernels = static_cast<int>(state.range(1)),
       tiles = static_cast<int>(state.range(2));
  measure(state, chain(kernels, tiles, state.range(3)),
          static_cast<int>(state.range(0)));
  state.counters["ns/tile"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kernels * tiles / 1e9,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Arguments: input tensors, kernels.
BENCHMARK(callStatic)
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 10})
    ->Args({8, 200});
BENCHMARK(callDynamic)->Args({1, 1})->Args({8, 1})->Args({8, 200});
// Arguments: workers, kernels, tiles of each, whether they are one.
BENCHMARK(callChain)
    ->ArgsProduct({{1, 2}, {50}, {8, 64}, {0, 1}})
    ->UseRealTime();

} // namespace

BENCHMARK_MAIN();
