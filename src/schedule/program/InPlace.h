//===- InPlace.h - may a result overwrite an operand? -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Questions about one dispatch and the operators around it. They keep no state:
// any thread may ask about IR that no thread changes.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H
#define ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace schedule {

/// True for pointwise work, views and row-wise reductions.
bool isLoops(ir::DispatchOp dispatch);

/// True if the dispatch computes the same when result `result` is written over
/// input `input`, a tensor of the same size that it reads once. Either
/// everything that depends on an element of the input has that element's index,
/// or slices or updates are written into the input and nothing else reads it.
bool mayOverwrite(ir::DispatchOp dispatch, unsigned input, unsigned result);

/// True if result `result` is input `input` with other parts, and nothing else
/// in the dispatch reads the input.
bool changesParts(ir::DispatchOp dispatch, unsigned input, unsigned result);

/// The input of the result's dispatch that the result may overwrite, because
/// no later operator needs its bytes; or -1. If other operators read the bytes,
/// each of them must feed the dispatch. Overwriting then needs no order that
/// the data does not need anyway.
int64_t findDyingInput(mlir::OpResult result);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H
