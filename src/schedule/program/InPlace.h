//===- InPlace.h - may a result overwrite an operand? -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Questions about one dispatch and what stands around it. Free of state: any
// thread may ask about IR that nobody changes.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H
#define ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace schedule {

/// True for pointwise work, views and row-wise reductions.
bool isLoops(ir::DispatchOp dispatch);

/// True if the dispatch still computes the same when result `result` is written
/// over input `input`, a tensor of the same size that it reads once: everything
/// that depends on an element of the input has that element's index, or the
/// input is only what slices or updates are written into.
bool mayOverwrite(ir::DispatchOp dispatch, unsigned input, unsigned result);

/// The input of the result's dispatch whose bytes nobody needs any more and
/// which the result may overwrite, or -1. Bytes that others read are free only
/// if all of these readers feed the dispatch: then writing over them asks for
/// no order between commands that the data does not ask for.
int64_t findDyingInput(mlir::OpResult result);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_INPLACE_H
