//===- Moves.h - generics that move elements without a change ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Views that neither a slice nor a reshape can express, and gathers. Elements
// keep their type and bits, NaN payloads included.

#ifndef ANABRANCH_IMPORT_LOWERING_MOVES_H
#define ANABRANCH_IMPORT_LOWERING_MOVES_H

#include "import/lowering/Lowering.h"
#include "ir/Layout.h"
#include "mlir/IR/AffineMap.h"

namespace anabranch {
namespace importer {

/// A tensor that a generic reads, and the position as a function of the loops.
struct Read {
  mlir::Value tensor;
  mlir::AffineMap map;
};

using Indices = llvm::SmallVector<mlir::Value>;

/// Computes one element of the result from its position and the elements read
/// there.
using PointFn =
    llvm::function_ref<mlir::Value(Body &, llvm::ArrayRef<mlir::Value> position,
                                   llvm::ArrayRef<mlir::Value> elements)>;
/// Computes the position in the source for a position of the result.
using SourceFn =
    llvm::function_ref<Indices(Body &, llvm::ArrayRef<mlir::Value> position,
                               llvm::ArrayRef<mlir::Value> elements)>;

/// A parallel generic over `sizes`.
mlir::Value forEachPoint(LoweringBuilder &b, mlir::Type element,
                         llvm::ArrayRef<mlir::OpFoldResult> sizes,
                         llvm::ArrayRef<Read> reads, PointFn body);

/// result[p] = source[from(p, reads[p])].
mlir::Value gatherElements(LoweringBuilder &b, mlir::Value source,
                           llvm::ArrayRef<mlir::OpFoldResult> sizes,
                           llvm::ArrayRef<Read> reads, SourceFn from);

/// result[p] = source[map(p)]: a transpose, a broadcast.
mlir::Value readThrough(LoweringBuilder &b, mlir::Value source,
                        mlir::AffineMap map,
                        llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// Where the elements of `tensor` are read: in itself, or in the tensor that it
/// transposes or broadcasts. Code that sees the source sees along which
/// dimensions nothing changes.
Read readSource(mlir::Value tensor);

/// The tensor with its dimensions in another order: dimension i of the result
/// is dimension `order[i]` of the tensor.
mlir::Value transpose(LoweringBuilder &b, mlir::Value tensor,
                      llvm::ArrayRef<int64_t> order);

/// The tensor with its channels, which are dimension one or the last, moved
/// according to `channels`. The view is marked.
mlir::Value moveChannels(LoweringBuilder &b, mlir::Value tensor,
                         ir::Channels channels);

/// Whether the tensor is made from one whose channels were last: by a view that
/// moved them, and by pointwise work and slices after it, which can keep them.
bool comesWithChannelsLast(mlir::Value tensor);

/// `whole` with `part` at these places of the dimensions `dims`, which `part`
/// lacks.
mlir::Value insertAt(LoweringBuilder &b, mlir::Value part, mlir::Value whole,
                     llvm::ArrayRef<int64_t> dims,
                     llvm::ArrayRef<int64_t> places);

/// The map through which a tensor of this type is read when it broadcasts to
/// the dimensions [offset, offset + its rank) of `loops` loops. A static size
/// of one repeats where `sizes` has another size.
mlir::AffineMap broadcastMap(mlir::RankedTensorType type, int64_t offset,
                             llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// The tensor broadcast to `sizes`, aligned at the last dimension.
mlir::Value broadcastTo(LoweringBuilder &b, mlir::Value tensor,
                        llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// The position in a dimension of this size that an element of an index tensor
/// means. If `wrap`, a negative one counts from the end. Emits the check that
/// it is in range; returns zero if it is not.
mlir::Value checkedIndex(Body &body, mlir::Value element, mlir::Value size,
                         bool wrap);

/// An integer argument, symbolic or literal. Null if it is None or absent.
mlir::OpFoldResult intArg(LoweringBuilder &b, ir::AtenOp op,
                          llvm::StringRef name);

/// The start index of a `slice`: a negative one counts from the end; all are
/// clamped to the dimension. Null means zero.
mlir::OpFoldResult wrapStart(LoweringBuilder &b, mlir::OpFoldResult start,
                             mlir::OpFoldResult size);

/// A 0-d tensor as a tensor of one element; others unchanged.
Operand atLeast1d(LoweringBuilder &b, Operand tensor);

/// The dimension argument `name`, wrapped. A 0-d tensor counts as having one
/// dimension.
int64_t dimArg(ir::AtenOp op, llvm::StringRef name, int64_t rank,
               int64_t otherwise = 0);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_MOVES_H
