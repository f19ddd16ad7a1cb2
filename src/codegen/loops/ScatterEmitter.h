//===- ScatterEmitter.h - elements written where data says ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_SCATTEREMITTER_H
#define ANABRANCH_CODEGEN_LOOPS_SCATTEREMITTER_H

#include "codegen/loops/NestStorage.h"

namespace anabranch {
namespace codegen {

/// Emits a scatter: a copy of the tensor that it updates, then the updates one
/// by one, or row by row.
class ScatterEmitter {
public:
  ScatterEmitter(LoopContext &context, NestStorage &storage, LoopNest &nest)
      : context(context), storage(storage), nest(nest),
        evaluator(context.evaluator), lanes(context.lanes) {}

  /// Emits the scatter, and binds its result for its readers.
  void emit();

private:
  LoopContext &context;
  NestStorage &storage;
  LoopNest &nest;
  Evaluator &evaluator;
  LaneBuilder &lanes;

  void copyInit(const Buffer &buffer);
  void scatterInto(const Buffer &buffer);
  /// Emits one update or, with lanes along a row, several neighbouring ones.
  void update(const Buffer &buffer, llvm::ArrayRef<Lanes> point);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_SCATTEREMITTER_H
