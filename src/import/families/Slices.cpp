//===- Slices.cpp - parts of a tensor, in order or not --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Stretches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

namespace {
/// The operands of an extract_slice or insert_slice.
struct Window {
  Sizes whole, offsets, sizes, strides;

  /// The window that is all of a tensor of these sizes.
  Window(LoweringBuilder &b, ArrayRef<OpFoldResult> whole)
      : whole(whole), offsets(whole.size(), b.builder.getIndexAttr(0)),
        sizes(whole), strides(whole.size(), b.builder.getIndexAttr(1)) {}

  bool hasAll() const { return llvm::equal(whole, sizes, sameSize); }
};
} // namespace

/// The window as a tensor of `resultSizes`, without the dimensions `dropped` of
/// size one. A window of all elements is the tensor itself or a reshape, which
/// a product keeps as its epilogue.
static Value extractWindow(LoweringBuilder &b, Value source,
                           const Window &window,
                           ArrayRef<OpFoldResult> resultSizes,
                           ArrayRef<int64_t> dropped = {}) {
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  RankedTensorType type = typeOf(resultSizes, element);
  if (window.hasAll()) {
    Value all = b.squeeze(source, dropped);
    if (all.getType() == type)
      return all;
  }
  return b.create<tensor::ExtractSliceOp>(type, source, window.offsets,
                                          window.sizes, window.strides);
}

/// The window with start and step of a slice along `dim`. Its size is not set
/// yet.
static FailureOr<Window> sliceOf(ir::AtenOp op, LoweringBuilder &b,
                                 const Sizes &whole, int64_t dim) {
  auto step = op.getIntArg("step");
  if (!step)
    return b.refuse("the step is no literal");
  Window window(b, whole);
  window.offsets[dim] = wrapStart(b, intArg(b, op, "start"), whole[dim]);
  window.strides[dim] = b.builder.getIndexAttr(*step);
  return window;
}

static Lowered lowerSlice(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes whole = sizesOf(b.builder, b.loc, self);
  int64_t dim = dimArg(op, "dim", whole.size());
  FailureOr<Window> slice = sliceOf(op, b, whole, dim);
  if (failed(slice))
    return failure();
  Window &window = *slice;
  window.sizes = op.getResultSizes();
  return lowered(extractWindow(b, self, window, window.sizes));
}

static Lowered lowerSelect(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes whole = sizesOf(b.builder, b.loc, self);
  int64_t dim = dimArg(op, "dim", whole.size());
  Window window(b, whole);
  window.offsets[dim] = wrapStart(b, intArg(b, op, "index"), whole[dim]);
  window.sizes[dim] = b.builder.getIndexAttr(1);
  return lowered(extractWindow(b, self, window, op.getResultSizes(), dim));
}

/// split, split_with_sizes, chunk, unbind: windows one after the other.
static Lowered lowerSplit(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes whole = sizesOf(b.builder, b.loc, self);
  int64_t dim = dimArg(op, "dim", whole.size());
  SmallVector<Value> results;
  OpFoldResult offset = b.builder.getIndexAttr(0);
  for (unsigned i = 0; i < op.getNumResults(); ++i) {
    Sizes sizes = op.getResultSizes(i);
    bool drops = sizes.size() < whole.size();
    Window window(b, whole);
    window.offsets[dim] = offset;
    window.sizes[dim] = drops ? b.builder.getIndexAttr(1) : sizes[dim];
    results.push_back(
        extractWindow(b, self, window, sizes,
                      drops ? ArrayRef<int64_t>(dim) : ArrayRef<int64_t>()));
    offset = addSizes(b.builder, b.loc, offset, window.sizes[dim]);
  }
  return results;
}

/// The tensor `dest` with the window replaced by `source`.
static Value insertWindow(LoweringBuilder &b, Value source, Value dest,
                          const Window &window) {
  return b.create<tensor::InsertSliceOp>(source, dest, window.offsets,
                                         window.sizes, window.strides);
}

/// `self` with `src` in the window that `windowOf(whole, dim)` returns.
static Lowered scatterInto(
    ir::AtenOp op, LoweringBuilder &b,
    llvm::function_ref<FailureOr<Window>(const Sizes &whole, int64_t dim)>
        windowOf) {
  Value self = op.getOperandArg("self"), src = op.getOperandArg("src");
  if (b.operand("src").dtype != b.resultDType())
    return b.refuse("src has another dtype");
  Sizes whole = sizesOf(b.builder, b.loc, self);
  FailureOr<Window> window = windowOf(whole, dimArg(op, "dim", whole.size()));
  if (failed(window))
    return failure();
  return lowered(insertWindow(b, src, self, *window));
}

static Lowered lowerSliceScatter(ir::AtenOp op, LoweringBuilder &b) {
  return scatterInto(op, b, [&](const Sizes &whole, int64_t dim) {
    FailureOr<Window> window = sliceOf(op, b, whole, dim);
    if (succeeded(window))
      window->sizes[dim] =
          sizeOf(b.builder, b.loc, op.getOperandArg("src"), dim);
    return window;
  });
}

static Lowered lowerSelectScatter(ir::AtenOp op, LoweringBuilder &b) {
  return scatterInto(op, b, [&](const Sizes &whole, int64_t dim) {
    Window window(b, whole);
    window.offsets[dim] = wrapStart(b, intArg(b, op, "index"), whole[dim]);
    window.sizes[dim] = b.builder.getIndexAttr(1);
    return FailureOr<Window>(window);
  });
}

/// The two dimensions along which a diagonal runs, and where it starts in each.
namespace {
struct Diagonal {
  int64_t dim1, dim2, start1, start2;

  Diagonal(ir::AtenOp op, int64_t rank)
      : dim1(dimArg(op, "dim1", rank)), dim2(dimArg(op, "dim2", rank, 1)) {
    int64_t offset = op.getIntArg("offset").value_or(0);
    start1 = std::max<int64_t>(0, -offset);
    start2 = std::max<int64_t>(0, offset);
  }
};
} // namespace

static Value plus(Body &body, Value index, int64_t constant) {
  if (constant == 0)
    return index;
  return body.create<arith::AddIOp>(
      index, Value(body.create<arith::ConstantIndexOp>(constant)));
}

static Lowered lowerDiagonal(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  int64_t rank = b.operand("self").rank();
  Diagonal diagonal(op, rank);
  return lowered(gatherElements(
      b, self, op.getResultSizes(), {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Indices source;
        for (int64_t dim = 0, next = 0; dim < rank; ++dim) {
          if (dim == diagonal.dim1)
            source.push_back(plus(body, position.back(), diagonal.start1));
          else if (dim == diagonal.dim2)
            source.push_back(plus(body, position.back(), diagonal.start2));
          else
            source.push_back(position[next++]);
        }
        return source;
      }));
}

static Lowered lowerUnfold(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  int64_t rank = b.operand("self").rank();
  int64_t dim = dimArg(op, "dimension", rank);
  auto step = op.getIntArg("step");
  if (!step || rank == 0)
    return b.refuse("unfold of a 0-d tensor or with a symbolic step");
  return lowered(gatherElements(
      b, self, op.getResultSizes(), {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Indices source(position.drop_back());
        Value start = body.create<arith::MulIOp>(
            source[dim], Value(body.create<arith::ConstantIndexOp>(*step)));
        source[dim] = body.create<arith::AddIOp>(start, position.back());
        return source;
      }));
}

static Lowered lowerFlip(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes sizes = op.getResultSizes();
  auto dims = op.getIntListArg("dims");
  if (!dims)
    return b.refuse("dims are not literals");
  if (dims->empty() || sizes.empty())
    return lowered(self);
  SmallVector<Value> last(sizes.size());
  for (int64_t dim : *dims) {
    dim = LoweringBuilder::wrapDim(dim, sizes.size());
    last[dim] = asIndex(
        b.builder, b.loc,
        subSizes(b.builder, b.loc, sizes[dim], b.builder.getIndexAttr(1)));
  }
  return lowered(gatherElements(
      b, self, sizes, {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Indices source(position);
        for (auto [dim, end] : llvm::enumerate(last))
          if (end)
            source[dim] = body.create<arith::SubIOp>(end, source[dim]);
        return source;
      }));
}

/// A tensor rolled by `shifts`, one for each dimension: elements that leave at
/// the end come in at the beginning.
static Value rollDims(LoweringBuilder &b, Value tensor,
                      ArrayRef<int64_t> shifts) {
  Sizes sizes = sizesOf(b.builder, b.loc, tensor);
  SmallVector<Stretch> stretches;
  auto known = getConstantIntValue(sizes.back());
  if (known && *known > 0) {
    int64_t moved = ((shifts.back() % *known) + *known) % *known;
    stretches = {{moved, *known - moved}, {*known - moved, 0}};
  }
  Indices amounts, ends;
  for (auto [size, shift] : llvm::zip(sizes, shifts)) {
    ends.push_back(asIndex(b.builder, b.loc, size));
    amounts.push_back(b.create<arith::ConstantIndexOp>(shift));
  }
  return gatherStretches(
      b, tensor, sizes, stretches,
      [&](Body &body, unsigned dim, Value position) -> Value {
        if (shifts[dim] == 0)
          return position;
        Value moved = body.create<arith::SubIOp>(position, amounts[dim]);
        Value rest = body.create<arith::RemSIOp>(moved, ends[dim]);
        Value negative = body.create<arith::CmpIOp>(
            arith::CmpIPredicate::slt, rest,
            Value(body.create<arith::ConstantIndexOp>(0)));
        Value wrapped = body.create<arith::AddIOp>(rest, ends[dim]);
        return body.create<arith::SelectOp>(negative, wrapped, rest);
      });
}

static Lowered lowerRoll(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes sizes = op.getResultSizes();
  auto shifts = op.getIntListArg("shifts"), dims = op.getIntListArg("dims");
  if (!shifts || !dims)
    return b.refuse("shifts or dims are not literals");
  if (sizes.empty())
    return lowered(self);
  if (dims->empty()) {
    OpFoldResult total = productOf(b.builder, b.loc, sizes);
    Value flat = reshape(b.builder, b.loc, self, {total});
    return lowered(
        reshape(b.builder, b.loc, rollDims(b, flat, shifts->front()), sizes));
  }
  SmallVector<int64_t> amounts(sizes.size(), 0);
  for (auto [shift, dim] : llvm::zip(*shifts, *dims))
    amounts[LoweringBuilder::wrapDim(dim, sizes.size())] += shift;
  return lowered(rollDims(b, self, amounts));
}

void anabranch::importer::registerSlices(OpTable &table) {
  table.family("view", Movable);
  table.add("slice.Tensor", lowerSlice,
            "T(6, 8), 1, 2, 7, 2; T(6), 0, -3; T(4, 5), 1, 1, -1");
  table.add("select.int", lowerSelect, "T(3, 4, 5), 1, -1");
  table.add("split.Tensor", lowerSplit, "T(7, 3), 2");
  table.add("split_with_sizes", lowerSplit, "T(7, 3), [1, 4, 2]");
  table.add("chunk", lowerSplit);
  table.add("unbind.int", lowerSplit, "T(3, 4), 1");
  table.add("narrow", lowerSlice);
  table.add("slice_scatter", lowerSliceScatter,
            "T(6, 8), T(6, 3), 1, 1, 7, 2; T(6), T(2), 0, -2");
  table.addWhole("select_scatter", lowerSelectScatter, "T(3, 4), T(3), 1, -2");
  table.add("diagonal", lowerDiagonal, "T(3, 5), 1; T(2, 4, 3), -1, 1, 2");
  table.add("unfold", lowerUnfold, "T(3, 9), 1, 4, 2");
  table.add("flip", lowerFlip, "T(3, 4, 5), [0, 2]");
  table.addWhole("roll", lowerRoll, "T(3, 4), [1, -2], [0, 1]; T(3, 4), [5]");
}
