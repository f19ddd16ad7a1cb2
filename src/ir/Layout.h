//===- Layout.h - views between orders of dimensions ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A convolution computes with its channels last and stands between two views
// that turn its input and its result. The marks on these views are discardable
// attributes: one that got lost costs a transposition, never a wrong result.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IR_LAYOUT_H
#define ANABRANCH_IR_LAYOUT_H

#include "mlir/IR/Operation.h"

namespace anabranch {
namespace ir {

/// What the result of a view that moves the channels has: channels last, as
/// convolutions read, or second, as PyTorch has them.
enum class Channels { Last, Second };

/// Marks a permutation, a `linalg.generic` that yields its only input.
void markChannels(mlir::Operation *view, Channels channels);
/// What a marked view makes; none of others and of null.
std::optional<Channels> channelsOf(mlir::Operation *view);

/// Marks a view that is stored once instead of being read through by all of its
/// readers.
void markStored(mlir::Operation *view);
bool isMarkedStored(mlir::Operation *view);

/// Marks the view of the windows of an image. Its loops stay as they are, unit
/// dimensions included, so that the product that reads it knows them.
void markWindows(mlir::Operation *view);
bool isMarkedWindows(mlir::Operation *view);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_LAYOUT_H
