//===- MachinePeaks.cpp - the limits that kernels are held against --------===//
// SPDX-License-Identifier: Apache-2.0
//
// machine-peaks THREADS BYTES...
//
// Measures what so many threads reach together, and prints it as JSON: GFLOP/s
// of each multiply, and GB/s of reading so many bytes again and again. Products
// of AMX registers are measured twice: of registers that keep their numbers,
// and ("_loaded") of operands that come from the first-level cache.

#include "package/targets/CpuModel.h"
#include "trace/MeasureMachine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

using namespace anabranch;

static double amxGflops(package::Multiply multiply, bool loaded, int threads) {
  if (!package::cpuHas(multiply))
    return 0;
  bool int8 = multiply == package::Multiply::AmxInt8;
  return trace::measureAmxGflops(int8, loaded, threads);
}

/// Of an instruction that takes turns with f32 multiply-adds at the same ports:
/// its rate in the table of CPU models says how much more it does.
static double vectors(package::Multiply multiply, double fma) {
  const package::CpuModel &model = package::hostCpuModel();
  if (!package::cpuHas(multiply))
    return 0;
  return fma * model.rate(multiply) / model.rate(package::Multiply::FmaF32);
}

int main(int count, char **arguments) {
  int threads = count > 1 ? std::atoi(arguments[1]) : 0;
  if (threads < 1 || threads > 1024) {
    std::fprintf(stderr, "usage: machine-peaks THREADS BYTES...\n");
    return 1;
  }
  nlohmann::json found, reads = nlohmann::json::object();
  found["threads"] = threads;
  double fma = trace::measureGflops(threads);
  found["fma_f32"] = fma;
  found["dot_bf16"] = vectors(package::Multiply::DotBF16, fma);
  found["dot_int8"] = vectors(package::Multiply::DotInt8, fma);
  for (bool loaded : {false, true}) {
    std::string end = loaded ? "_loaded" : "";
    found["tile_bf16" + end] =
        amxGflops(package::Multiply::AmxBF16, loaded, threads);
    found["tile_int8" + end] =
        amxGflops(package::Multiply::AmxInt8, loaded, threads);
  }
  for (int i = 2; i < count; ++i)
    reads[arguments[i]] = trace::measureReadGBs(
        threads, std::max(std::atoll(arguments[i]), 4096LL));
  found["read_gbs"] = reads;
  std::printf("%s\n", found.dump().c_str());
  return 0;
}
