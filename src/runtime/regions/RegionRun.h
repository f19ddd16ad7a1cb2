//===- RegionRun.h - one run of a region ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_REGIONS_REGIONRUN_H
#define ANABRANCH_RUNTIME_REGIONS_REGIONRUN_H

#include "runtime/regions/RegionCaller.h"

namespace anabranch::runtime {

/// The slice of a contiguous tensor at a place of its first dimension.
TensorView sliceOf(const TensorView &tensor, int64_t place);

/// Runs regions of its caller's program: collects the inputs of a run, and the
/// memory of its results, in the order of the region's own.
class RegionRun : public OutputAllocator {
public:
  explicit RegionRun(const RegionCaller &caller) : caller(caller) {}

  void pass(const TensorView &tensor);
  void pass(const std::vector<RegionArgument> &arguments);
  void take(const TensorView &memory) { results.push_back({memory, -1, {}}); }
  void take(const std::vector<int> &buffers);

  /// Runs the region. The object may then collect for the next run.
  Status run(int region);

  Status allocate(OutputValue *outputs, size_t count) override;

private:
  /// A result: memory of the caller's program, or of the host once its size is
  /// known.
  struct Result {
    TensorView memory;
    int madeFor; ///< an External buffer; -1: none
    HostResult made;
  };

  void pass(const RegionArgument &argument);
  Status make(Result &result, TensorView &like);
  void keepMade(bool succeeded);

  const RegionCaller &caller;
  std::vector<InputValue> inputs;
  std::vector<Result> results;
  std::vector<OutputValue> outputs;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_REGIONS_REGIONRUN_H
