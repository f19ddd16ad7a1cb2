//===- Scatter.cpp - elements written at computed positions ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"
#include "import/Scattering.h"
#include "import/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// What becomes of an element that an update meets.
using MergeFn = llvm::function_ref<Num(Body &, Num current, Num update)>;

/// Sum and product in what PyTorch computes in.
static Num inMath(Num current, Num update,
                  llvm::function_ref<Num(Num, Num)> combine) {
  DType math = current.dtype.math();
  return combine(s::cast(current, math), s::cast(update, math));
}

static Num added(Body &, Num current, Num update) {
  return inMath(current, update, [](Num a, Num b) { return a + b; });
}

static Num replaced(Body &, Num current, Num update) {
  return s::cast(update, current.dtype);
}

namespace {
/// self, dim and index of the scatter family: the index tensor gives the
/// position along `dim`, and its shape is the iteration space.
struct Along {
  Operand self, index;
  int64_t dim;
  Value size;

  static FailureOr<Along> of(ir::AtenOp op, LoweringBuilder &b) {
    Along along;
    along.self = b.operand("self");
    along.index = b.operand("index");
    int64_t rank = along.self.rank();
    along.dim = dimArg(op, "dim", rank);
    if (rank == 0 || along.index.rank() != rank)
      return b.refuse("a 0-d tensor");
    if (!along.index.dtype.isInt())
      return b.refuse("the index is no integer tensor");
    if (along.self.size(along.dim) == 0)
      return b.refuse("the dimension is empty");
    along.size =
        asIndex(b.builder, b.loc, b.sizeOf(along.self.value, along.dim));
    return along;
  }

  Indices target(Body &body, ArrayRef<Value> point, Value element) const {
    Indices position(point);
    position[dim] = checkedIndex(body, element, size, /*wrap=*/false);
    return position;
  }
};
} // namespace

/// The part of `src` that the index tensor covers.
static Operand covered(LoweringBuilder &b, const Along &along, Operand src) {
  Sizes sizes = b.sizesOf(along.index.value);
  if (src.value.getType() == typeOf(sizes, src.dtype.type) &&
      along.index.type().hasStaticShape())
    return src;
  Sizes zeros(sizes.size(), b.indexAttr(0)), ones(sizes.size(), b.indexAttr(1));
  return b.tensor(
      b.create<tensor::ExtractSliceOp>(src.value, zeros, sizes, ones),
      src.dtype);
}

/// One update per element of the index tensor.
static Value scatterAlong(LoweringBuilder &b, const Along &along, Operand src,
                          MergeFn merge) {
  return scatter(b, along.self, covered(b, along, src),
                 [&](Body &body, ArrayRef<Value> point, Num current,
                     Num update) -> Placed {
                   Value element = body.builder.create<tensor::ExtractOp>(
                       body.loc, along.index.value, point);
                   return {along.target(body, point, element),
                           merge(body, current, update)};
                 });
}

static Lowered lowerScatterSrc(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  return lowered(scatterAlong(b, *along, b.operand("src"), replaced));
}

static Lowered lowerScatterAdd(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  return lowered(scatterAlong(b, *along, b.operand("src"), added));
}

/// A number for every element of the index tensor, which stands for the
/// updates: only its shape and its values as positions count.
static Lowered lowerScatterValue(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  auto value = op.getFloatArg("value");
  auto integer = op.getIntArg("value");
  if (!value)
    return b.refuse("the value is symbolic");
  return lowered(scatter(
      b, along->self, along->index,
      [&](Body &body, ArrayRef<Value> point, Num current, Num index) -> Placed {
        bool isInteger = integer && !current.dtype.isFloat();
        Num number =
            isInteger ? current.constant(*integer) : current.constant(*value);
        return {along->target(body, point, index.value), number};
      }));
}

namespace {
/// A reduction of scatter_reduce.
struct Reduction {
  Num (*combine)(Num, Num);
  /// What an element counts as that takes no part itself.
  double identity;
};
} // namespace

static std::optional<Reduction> reductionOf(StringRef name, DType dtype) {
  // Beyond every value: infinity, which integers take as their extreme.
  double infinity = std::numeric_limits<double>::infinity();
  if (name == "sum" || name == "add")
    return Reduction{[](Num a, Num b) { return a + b; }, 0};
  if (name == "prod" || name == "multiply")
    return Reduction{[](Num a, Num b) { return a * b; }, 1};
  if (name == "amax")
    return Reduction{s::maximum, -infinity};
  if (name == "amin")
    return Reduction{s::minimum, infinity};
  return std::nullopt;
}

/// The identity as an element of the dtype.
static Num identityOf(Num like, double identity) {
  if (like.dtype.isFloat() || identity == 0 || identity == 1)
    return like.constant(identity);
  unsigned width = like.dtype.width();
  bool largest = identity > 0;
  if (like.dtype.isUnsigned || like.dtype.isBool())
    return like.constant(largest ? APInt::getMaxValue(width).getSExtValue()
                                 : int64_t(0));
  return like.constant(largest
                           ? APInt::getSignedMaxValue(width).getSExtValue()
                           : APInt::getSignedMinValue(width).getSExtValue());
}

/// Without `include_self`, what is written to is first made neutral.
static Lowered lowerScatterReduce(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  StringRef name = op.getStringArg("reduce").value_or("");
  auto reduction = reductionOf(name, along->self.dtype);
  if (!reduction)
    return b.refuse("no lowering for the reduction '" + name + "'");
  if (!op.getBoolArg("include_self").value_or(true))
    along->self.value =
        scatter(b, along->self, along->index,
                [&](Body &body, ArrayRef<Value> point, Num current,
                    Num index) -> Placed {
                  return {along->target(body, point, index.value),
                          identityOf(current, reduction->identity)};
                });
  return lowered(scatterAlong(
      b, *along, b.operand("src"), [&](Body &, Num current, Num update) {
        return inMath(current, update, reduction->combine);
      }));
}

void anabranch::importer::registerScatter(OpTable &table) {
  table.family("scatter");
  table.add("scatter.src", lowerScatterSrc, "T(3, 4), 1, I(4, 3, 1), T(3, 2)");
  table.add("scatter.value", lowerScatterValue, "T(3, 4), 0, I(3, 2, 4), 2");
  table.add("scatter_add", lowerScatterAdd, "T(3, 4), 1, I(4, 3, 6), T(3, 6)",
            kNumbers);
  table.add("scatter_reduce.two", lowerScatterReduce,
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), 'sum';"
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), 'amax', include_self=False",
            kNumbers);
}
