//===- Gather.cpp - elements read at computed positions -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/IndexLists.h"
#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// Whether the dimension has no elements. Then not even a clamped index may be
/// read.
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
  Value gathered = gatherElements(
      b, self.value, sizes, {readSource(index.value)},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value> elements) {
        Indices source(position);
        source[dim] = checkedIndex(body, elements[0], size, /*wrap=*/false);
        return source;
      });
  return lowered(reshape(b.builder, b.loc, gathered, op.getResultSizes()));
}

/// The elements of `table` whose index in dimension `dim` is given by the index
/// tensor. The index tensor's dimensions take the place of `dim`.
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
  if (index.rank() != 1)
    return b.refuse("the index is no vector");
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

/// index.Tensor: several index tensors, which broadcast together.
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

/// one_hot: rows of a unit matrix, which is never stored.
static Lowered lowerOneHot(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  auto classes = op.getIntArg("num_classes");
  if (!classes || *classes < 1)
    return b.refuse("a number of classes that the data decide");
  Sizes sizes = b.sizesOf(self.value);
  int64_t last = self.rank();
  sizes.push_back(b.indexAttr(*classes));
  Operand index = b.tensor(self.value, self.dtype,
                           llvm::to_vector(llvm::seq<int64_t>(0, last)));
  return lowered(b.elementwiseMixed(
      {index}, b.resultDType(), sizes, [&](Body &body, ArrayRef<Num> x) {
        Num number = x[0];
        s::checkIndex((number >= 0.0) & (number < double(*classes)));
        return s::cast(number == s::index(body, last), b.resultDType());
      }));
}

/// Whether the last element that literal sizes and strides reach lies in a
/// storage of `count` elements. Meta tensors do not check that.
static bool staysInside(ArrayRef<OpFoldResult> sizes,
                        ArrayRef<OpFoldResult> strides, OpFoldResult offset,
                        OpFoldResult count) {
  auto last = getConstantIntValue(offset), all = getConstantIntValue(count);
  if (!last || !all || *last < 0)
    return false;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    auto steps = getConstantIntValue(size), step = getConstantIntValue(stride);
    if (!steps || !step || *step < 0)
      return false;
    if (*steps == 0)
      return true;
    *last += (*steps - 1) * *step;
  }
  return *last < *all;
}

/// as_strided of a tensor that is all of its storage, in row-major order.
/// Capture makes sure of that.
static Lowered lowerAsStrided(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes sizes = op.getResultSizes(), strides = op.getSizeListArg("stride");
  OpFoldResult offset = intArg(b, op, "storage_offset");
  if (!offset)
    offset = b.indexAttr(0);
  OpFoldResult count =
      ir::productOf(b.builder, b.loc, sizesOf(b.builder, b.loc, self));
  if (getConstantIntValue(count) == 0)
    return b.refuse("the storage is empty");
  bool inside = staysInside(sizes, strides, offset, count);
  Value flat = reshape(b.builder, b.loc, self, {count});
  Value first = asIndex(b.builder, b.loc, offset);
  Value extent = asIndex(b.builder, b.loc, count);
  Indices steps;
  for (OpFoldResult stride : strides)
    steps.push_back(asIndex(b.builder, b.loc, stride));
  return lowered(gatherElements(
      b, flat, sizes, {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) -> Indices {
        Value at = first;
        for (auto [index, step] : llvm::zip(position, steps)) {
          Value moved = body.create<arith::MulIOp>(index, step);
          at = body.create<arith::AddIOp>(at, moved);
        }
        if (inside)
          return {at};
        return {checkedIndex(body, at, extent, /*wrap=*/false)};
      }));
}

void anabranch::importer::registerGather(OpTable &table) {
  table.family("index", Movable);
  table.add("gather", lowerGather, "T(3, 4), 1, I(4, 3, 2)");
  table.add("index_select", lowerIndexSelect, "T(3, 4), 1, I(4, 5)");
  table.add("embedding", lowerEmbedding, "T(9, 4), I(9, 2, 3)");
  table.addWhole("one_hot", lowerOneHot, "I(7, 5), 7; I(4, 2, 3), 6", I64);
  table.add("index.Tensor", lowerIndex,
            "T(3, 4, 5), [None, I(4, 6)]; T(3, 4, 5), [I(3, 2, 1), I(4, 3)];"
            "T(3, 4, 5), [I(3, 2), None, I(5, 2)]");
  table.add("_unsafe_index.Tensor", lowerIndex);
  table.add("as_strided", lowerAsStrided,
            "T(4, 6), [2, 3, 4], [6, 2, 1], 3; T(20), [3, 3], [1, 5]");
  table.add("as_strided_copy", lowerAsStrided);
}
