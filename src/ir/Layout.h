//===- Layout.h - views between orders of dimensions ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A convolution computes with its channels last. Two views around it
// permute the dimensions of its input and of its result. The marks on
// these views are discardable attributes: a lost mark costs a transposition,
// never a wrong result.

#ifndef ANABRANCH_IR_LAYOUT_H
#define ANABRANCH_IR_LAYOUT_H

#include "mlir/IR/Operation.h"

namespace anabranch {
namespace ir {

/// Where the result of a view has its channels: last, as convolutions read
/// them, or second, as PyTorch has them.
enum class Channels { Last, Second };

/// Marks a permutation, a `linalg.generic` that yields its only input.
void markChannels(mlir::Operation *view, Channels channels);
/// The mark of a view; none if `view` is null or has no mark.
std::optional<Channels> channelsOf(mlir::Operation *view);

/// Marks a view that is stored once. Readers read the stored copy, not through
/// the view.
void markStored(mlir::Operation *view);
bool isMarkedStored(mlir::Operation *view);

/// Marks the view of the windows of an image. The view's loops stay as they
/// are, unit dimensions included, because the product that reads it needs them.
void markWindows(mlir::Operation *view);
bool isMarkedWindows(mlir::Operation *view);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_LAYOUT_H
