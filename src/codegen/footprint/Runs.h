//===- Runs.h - bytes at equal distances ------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_FOOTPRINT_RUNS_H
#define ANABRANCH_CODEGEN_FOOTPRINT_RUNS_H

#include "codegen/emit/IndexRange.h"
#include "codegen/emit/Memory.h"

namespace anabranch {
namespace codegen {

/// The fields of an anabranch_reach, as `index` values.
struct Runs {
  mlir::Value offset, width, pitch, count;
};

class RunBuilder {
public:
  explicit RunBuilder(KernelFrame &frame) : lanes(frame.lanes), ranges(frame) {}

  Runs nothing();
  /// The elements with an index in the range of each dimension, or more; none
  /// if `isEmpty`. The buffer's pointer is its distance from address zero.
  Runs of(llvm::ArrayRef<IndexRange> dims, mlir::Value isEmpty,
          const Buffer &buffer);
  /// What is in either, or more.
  Runs unite(const Runs &a, const Runs &b);

private:
  LaneBuilder &lanes;
  RangeBuilder ranges;

  mlir::Value span(const Runs &runs);
  Runs one(mlir::Value a, mlir::Value endA, mlir::Value b, mlir::Value endB);
  Runs beside(const Runs &a, const Runs &b, mlir::Value &fits);
  Runs longer(const Runs &a, const Runs &b, mlir::Value &fits);
  Runs merged(const Runs &runs, mlir::Value count, mlir::Value stride);
  void addDimension(Runs &runs, mlir::Value count, mlir::Value stride);
  using Make = llvm::function_ref<Runs()>;
  Runs choose(mlir::Value condition, Make yes, Make no);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_FOOTPRINT_RUNS_H
