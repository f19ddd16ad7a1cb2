//===- MachinePeaks.cpp - the limits that kernels are held against --------===//
// SPDX-License-Identifier: Apache-2.0
//
// machine-peaks THREADS BYTES...
//
// Measures what so many threads reach together, and prints it as JSON: GFLOP/s
// of each multiply, and GB/s of reading so many bytes again and again. Products
// of AMX registers are measured twice: of registers that keep their numbers,
// and ("_loaded") of operands that come from the first-level cache.

#include "machine/limits/MeasureMachine.h"
#include "machine/processor/CpuModels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

using namespace anabranch;

static double amxGflops(machine::Multiply multiply, bool loaded, int threads) {
  if (!machine::cpuHas(multiply))
    return 0;
  bool int8 = multiply == machine::Multiply::TileInt8;
  return machine::measureAmxGflops(int8, loaded, threads);
}

/// Of an instruction that takes turns with f32 multiply-adds at the same ports:
/// its rate in the table of CPU models says how much more it does.
static double vectors(machine::Multiply multiply, double fma) {
  const machine::CpuModel &model = machine::hostCpuModel();
  if (!machine::cpuHas(multiply))
    return 0;
  return fma * model.rate(multiply) / model.rate(machine::Multiply::FmaF32);
}

int main(int count, char **arguments) {
  int threads = count > 1 ? std::atoi(arguments[1]) : 0;
  if (threads < 1 || threads > 1024) {
    std::fprintf(stderr, "usage: machine-peaks THREADS BYTES...\n");
    return 1;
  }
  nlohmann::json found, reads = nlohmann::json::object();
  found["threads"] = threads;
  double fma = machine::measureGflops(threads);
  found["fma_f32"] = fma;
  found["dot_bf16"] = vectors(machine::Multiply::DotBF16, fma);
  found["dot_int8"] = vectors(machine::Multiply::DotInt8, fma);
  for (bool loaded : {false, true}) {
    std::string end = loaded ? "_loaded" : "";
    found["tile_bf16" + end] =
        amxGflops(machine::Multiply::TileBF16, loaded, threads);
    found["tile_int8" + end] =
        amxGflops(machine::Multiply::TileInt8, loaded, threads);
  }
  for (int i = 2; i < count; ++i)
    reads[arguments[i]] = machine::measureReadGBs(
        threads, std::max(std::atoll(arguments[i]), 4096LL));
  found["read_gbs"] = reads;
  std::printf("%s\n", found.dump().c_str());
  return 0;
}
