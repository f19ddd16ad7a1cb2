//===- Gather.cpp - elements read at computed positions -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/IndexLists.h"
#include "import/Moves.h"
#include "import/OpTable.h"
#include "import/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// Whether reading index zero of the dimension is never allowed, so that not
/// even a clamped index is safe.
static bool isEmptyDim(Operand tensor, int64_t dim) {
  return tensor.rank() > 0 && tensor.size(dim) == 0;
}

/// gather: the index tensor replaces one dimension of the position.
static Lowered lowerGather(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = atLeast1d(b, b.operand("self"));
  Operand index = atLeast1d(b, b.operand("index"));
  if (!index.dtype.isInt())
    return b.refuse("the index is no integer tensor");
  Sizes sizes = b.sizesOf(index.value);
  int64_t dim = dimArg(op, "dim", self.rank());
  if (self.rank() != index.rank())
    return b.refuse("an index of another rank");
  if (isEmptyDim(self, dim))
    return b.refuse("the dimension is empty");
  Value size = asIndex(b.builder, b.loc, b.sizeOf(self.value, dim));
  AffineMap identity = b.builder.getMultiDimIdentityMap(sizes.size());
  Value gathered = gatherElements(
      b, self.value, sizes, {{index.value, identity}},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value> elements) {
        Indices source(position);
        source[dim] = checkedIndex(body, elements[0], size, /*wrap=*/false);
        return source;
      });
  return lowered(reshape(b.builder, b.loc, gathered, op.getResultSizes()));
}

/// Elements of `table` where dimension `dim` is given by the index tensor,
/// whose dimensions take its place.
static Value takeAlong(LoweringBuilder &b, Operand table, Operand index,
                       int64_t dim, ArrayRef<OpFoldResult> sizes) {
  Value size = asIndex(b.builder, b.loc, b.sizeOf(table.value, dim));
  AffineMap map = AffineMap::getMultiDimIdentityMap(sizes.size(), b.context())
                      .getSliceMap(dim, index.rank());
  return gatherElements(
      b, table.value, sizes, {{index.value, map}},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value> elements) {
        Indices source(position.take_front(dim));
        source.push_back(checkedIndex(body, elements[0], size,
                                      /*wrap=*/false));
        llvm::append_range(source, position.drop_front(dim + index.rank()));
        return source;
      });
}

static Lowered lowerIndexSelect(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = atLeast1d(b, b.operand("self"));
  Operand index = atLeast1d(b, b.operand("index"));
  int64_t dim = dimArg(op, "dim", self.rank());
  if (!index.dtype.isInt())
    return b.refuse("the index is no integer tensor");
  if (isEmptyDim(self, dim))
    return b.refuse("the dimension is empty");
  Sizes sizes = b.sizesOf(self.value);
  sizes[dim] = b.sizeOf(index.value, 0);
  Value taken = takeAlong(b, self, index, dim, sizes);
  return lowered(reshape(b.builder, b.loc, taken, op.getResultSizes()));
}

static Lowered lowerEmbedding(ir::AtenOp op, LoweringBuilder &b) {
  Operand weight = b.operand("weight"), indices = b.operand("indices");
  if (!indices.dtype.isInt())
    return b.refuse("the indices are no integer tensor");
  if (isEmptyDim(weight, 0))
    return b.refuse("the table is empty");
  return lowered(takeAlong(b, weight, indices, 0, op.getResultSizes()));
}

/// index.Tensor: several index tensors, broadcast together.
static Lowered lowerIndex(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  FailureOr<IndexList> list = IndexList::of(b, self, "indices");
  if (failed(list))
    return failure();
  Sizes sizes = op.getResultSizes();
  SmallVector<Read> reads = list->reads(sizes);
  Indices extents = list->extents(b, self.value);
  return lowered(gatherElements(
      b, self.value, sizes, reads,
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value> elements) {
        return list->target(body, position, elements, extents);
      }));
}

void anabranch::importer::registerGather(OpTable &table) {
  table.family("index");
  table.add("gather", lowerGather, "T(3, 4), 1, I(4, 3, 2)");
  table.add("index_select", lowerIndexSelect, "T(3, 4), 1, I(4, 5)");
  table.add("embedding", lowerEmbedding, "T(9, 4), I(9, 2, 3)");
  table.add("index.Tensor", lowerIndex,
            "T(3, 4, 5), [None, I(4, 6)]; T(3, 4, 5), [I(3, 2, 1), I(4, 3)];"
            "T(3, 4, 5), [I(3, 2), None, I(5, 2)]");
  table.add("_unsafe_index.Tensor", lowerIndex);
}
