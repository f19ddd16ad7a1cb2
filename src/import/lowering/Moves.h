//===- Moves.h - generics that move elements without a change ---*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Views that neither a slice nor a reshape can express, and gathers. Elements
// keep their type: nothing is converted on the way, NaN payloads included.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_LOWERING_MOVES_H
#define ANABRANCH_IMPORT_LOWERING_MOVES_H

#include "import/lowering/Lowering.h"
#include "ir/Layout.h"
#include "mlir/IR/AffineMap.h"

namespace anabranch {
namespace importer {

/// A tensor that a generic reads, and where.
struct Read {
  mlir::Value tensor;
  mlir::AffineMap map;
};

using Indices = llvm::SmallVector<mlir::Value>;

/// One element of the result, from the position and the elements read there.
using PointFn =
    llvm::function_ref<mlir::Value(Body &, llvm::ArrayRef<mlir::Value> position,
                                   llvm::ArrayRef<mlir::Value> elements)>;
/// Where in the source the element for this position is.
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

/// The tensor with its dimensions in another order: dimension i of the result
/// is dimension `order[i]`.
mlir::Value transpose(LoweringBuilder &b, mlir::Value tensor,
                      llvm::ArrayRef<int64_t> order);

/// The tensor with its channels, dimension one or the last, moved to where
/// `channels` says: a view that is marked as such.
mlir::Value moveChannels(LoweringBuilder &b, mlir::Value tensor,
                         ir::Channels channels);

/// How a tensor of this type is read when it broadcasts to the dimensions
/// [offset, offset + its rank) of `loops` ones: static size one repeats where
/// `sizes` has another size.
mlir::AffineMap broadcastMap(mlir::RankedTensorType type, int64_t offset,
                             llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// The tensor broadcast to `sizes`, aligned at the last dimension.
mlir::Value broadcastTo(LoweringBuilder &b, mlir::Value tensor,
                        llvm::ArrayRef<mlir::OpFoldResult> sizes);

/// The index that an element of an index tensor means in a dimension of this
/// size, counted from the end where negative if `wrap`. Emits the check that it
/// is in range, and gives zero if it is not.
mlir::Value checkedIndex(Body &body, mlir::Value element, mlir::Value size,
                         bool wrap);

/// An integer argument, symbolic or literal; null if it is None or absent.
mlir::OpFoldResult intArg(LoweringBuilder &b, ir::AtenOp op,
                          llvm::StringRef name);

/// A start index as `slice` takes it: counted from the end where negative,
/// clamped to the dimension. A null start is zero.
mlir::OpFoldResult wrapStart(LoweringBuilder &b, mlir::OpFoldResult start,
                             mlir::OpFoldResult size);

/// A 0-d tensor as one of a single element; others as they are.
Operand atLeast1d(LoweringBuilder &b, Operand tensor);

/// The dimension argument `name` of the tensor, wrapped; a 0-d tensor has one.
int64_t dimArg(ir::AtenOp op, llvm::StringRef name, int64_t rank,
               int64_t otherwise = 0);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_MOVES_H
