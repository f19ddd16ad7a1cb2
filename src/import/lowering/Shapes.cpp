//===- Shapes.cpp - sizes as values, and reshapes between them ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Shapes.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

template <typename Op, typename Fold>
static OpFoldResult combine(OpBuilder &builder, Location loc, OpFoldResult a,
                            OpFoldResult b, Fold fold) {
  auto left = getConstantIntValue(a), right = getConstantIntValue(b);
  if (left && right)
    return builder.getIndexAttr(fold(*left, *right));
  return builder
      .create<Op>(loc, asIndex(builder, loc, a), asIndex(builder, loc, b))
      .getResult();
}

OpFoldResult addSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                      OpFoldResult b) {
  if (isConstantIntValue(a, 0))
    return b;
  if (isConstantIntValue(b, 0))
    return a;
  return combine<arith::AddIOp>(builder, loc, a, b,
                                [](int64_t x, int64_t y) { return x + y; });
}

OpFoldResult subSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                      OpFoldResult b) {
  if (isConstantIntValue(b, 0))
    return a;
  return combine<arith::SubIOp>(builder, loc, a, b,
                                [](int64_t x, int64_t y) { return x - y; });
}

OpFoldResult mulSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                      OpFoldResult b) {
  if (isConstantIntValue(a, 1) || isConstantIntValue(b, 0))
    return b;
  if (isConstantIntValue(b, 1) || isConstantIntValue(a, 0))
    return a;
  return combine<arith::MulIOp>(builder, loc, a, b,
                                [](int64_t x, int64_t y) { return x * y; });
}

OpFoldResult minSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                      OpFoldResult b) {
  return combine<arith::MinSIOp>(
      builder, loc, a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
}

OpFoldResult maxSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                      OpFoldResult b) {
  return combine<arith::MaxSIOp>(
      builder, loc, a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
}

Value asIndex(OpBuilder &builder, Location loc, OpFoldResult size) {
  if (auto value = dyn_cast<Value>(size))
    return value;
  return builder.create<arith::ConstantIndexOp>(loc,
                                                *getConstantIntValue(size));
}

RankedTensorType typeOf(ArrayRef<OpFoldResult> sizes, Type element) {
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes)
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  return RankedTensorType::get(shape, element);
}

//===----------------------------------------------------------------------===//
// Equality
//===----------------------------------------------------------------------===//

/// The size that the graph promises a dimension of an argument to be; the value
/// itself if it is none.
static Value promised(Value value) {
  auto dim = value.getDefiningOp<tensor::DimOp>();
  auto argument = dim ? dyn_cast<BlockArgument>(dim.getSource()) : nullptr;
  if (!argument)
    return value;
  for (Operation *user : argument.getUsers()) {
    auto other = dyn_cast<tensor::DimOp>(user);
    if (!other || other.getConstantIndex() != dim.getConstantIndex())
      continue;
    for (Operation *reader : other->getUsers())
      if (auto expect = dyn_cast<ir::ExpectOp>(reader))
        if (expect.getSize() == other.getResult() && expect.getSame())
          return expect.getSame();
  }
  return value;
}

/// Whether two values are equal by structure. Import computes the same size
/// anew for each operator, so equal sizes are often different values. Size
/// expressions are small; the depth bounds the work on a shared one.
static bool sameValue(Value a, Value b, int depth = 8) {
  a = promised(a), b = promised(b);
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (depth == 0 || !left || !right || left->getName() != right->getName() ||
      left->getNumResults() != 1 || !isMemoryEffectFree(left) ||
      left->getNumRegions() != 0 ||
      left->getNumOperands() != right->getNumOperands() ||
      left->getAttrDictionary() != right->getAttrDictionary())
    return false;
  return llvm::all_of(
      llvm::zip(left->getOperands(), right->getOperands()), [&](auto pair) {
        return sameValue(std::get<0>(pair), std::get<1>(pair), depth - 1);
      });
}

bool sameSize(OpFoldResult a, OpFoldResult b) {
  auto left = getConstantIntValue(a), right = getConstantIntValue(b);
  if (left || right)
    return left == right;
  return sameValue(cast<Value>(a), cast<Value>(b));
}

/// Whether the value is a - (a / b) * b for a division that rounds down, which
/// has the sign of b.
static bool isRemainder(Value value, Value &divisor) {
  auto rest = value.getDefiningOp<arith::SubIOp>();
  auto whole = rest ? rest.getRhs().getDefiningOp<arith::MulIOp>() : nullptr;
  auto quotient =
      whole ? whole.getLhs().getDefiningOp<arith::FloorDivSIOp>() : nullptr;
  if (!quotient || quotient.getLhs() != rest.getLhs() ||
      quotient.getRhs() != whole.getRhs())
    return false;
  divisor = quotient.getRhs();
  return true;
}

bool isNonNegative(OpFoldResult size) {
  if (auto constant = getConstantIntValue(size))
    return *constant >= 0;
  auto value = cast<Value>(size);
  if (Value divisor; isRemainder(value, divisor))
    return isNonNegative(divisor);
  Operation *op = value.getDefiningOp();
  auto isKnown = [](Value operand) { return isNonNegative(operand); };
  if (isa_and_nonnull<arith::MaxSIOp>(op))
    return llvm::any_of(op->getOperands(), isKnown);
  return isa_and_nonnull<tensor::DimOp>(op) ||
         (isa_and_nonnull<arith::AddIOp, arith::MulIOp, arith::FloorDivSIOp,
                          arith::CeilDivSIOp, arith::MinSIOp>(op) &&
          llvm::all_of(op->getOperands(), isKnown));
}

namespace {
/// A product of sizes in normal form: a factor, and values that are no
/// products.
struct Product {
  int64_t factor = 1;
  SmallVector<Value> values;

  void multiply(OpFoldResult size) {
    if (auto constant = getConstantIntValue(size)) {
      factor *= *constant;
      return;
    }
    Value value = cast<Value>(size);
    if (auto mul = value.getDefiningOp<arith::MulIOp>()) {
      multiply(OpFoldResult(mul.getLhs()));
      multiply(OpFoldResult(mul.getRhs()));
      return;
    }
    values.push_back(value);
  }

  bool operator==(const Product &other) const {
    if (factor != other.factor || values.size() != other.values.size())
      return false;
    SmallVector<Value> rest = other.values;
    for (Value value : values) {
      auto *match = llvm::find_if(
          rest, [&](Value candidate) { return sameValue(value, candidate); });
      if (match == rest.end())
        return false;
      rest.erase(match);
    }
    return true;
  }
};
} // namespace

Sizes sizesOf(OpBuilder &builder, Location loc, Value tensor) {
  Sizes sizes;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    sizes.push_back(sizeOf(builder, loc, tensor, dim));
  return sizes;
}

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

namespace {
/// Dimensions of the source and of the result that have the same product.
struct MatchedDims {
  ReassociationIndices source, result;
};
} // namespace

/// Cuts both shapes into the shortest groups of equal product. If one side
/// ends, the rest of the other has product one, because the totals are equal.
static SmallVector<MatchedDims> matchDims(ArrayRef<OpFoldResult> source,
                                          ArrayRef<OpFoldResult> result) {
  SmallVector<MatchedDims> groups;
  size_t i = 0, j = 0;
  while (i < source.size() && j < result.size()) {
    // Finds the shortest pair of prefixes with the same product: tries each
    // length of the source's, and for it each of the result's.
    bool matched = false;
    Product left;
    for (size_t m = i; m < source.size() && !matched; ++m) {
      left.multiply(source[m]);
      Product right;
      for (size_t n = j; n < result.size() && !matched; ++n) {
        right.multiply(result[n]);
        if (!(left == right))
          continue;
        MatchedDims group;
        for (; i <= m; ++i)
          group.source.push_back(i);
        for (; j <= n; ++j)
          group.result.push_back(j);
        groups.push_back(group);
        matched = true;
      }
    }
    if (!matched)
      break;
  }
  if (groups.empty() || (i < source.size() && j < result.size()))
    groups.emplace_back();
  for (; i < source.size(); ++i)
    groups.back().source.push_back(i);
  for (; j < result.size(); ++j)
    groups.back().result.push_back(j);
  return groups;
}

static Value collapse(OpBuilder &builder, Location loc, Value tensor,
                      ArrayRef<ReassociationIndices> groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (static_cast<int64_t>(groups.size()) == type.getRank())
    return tensor;
  return builder.create<tensor::CollapseShapeOp>(loc, tensor, groups);
}

static Value expand(OpBuilder &builder, Location loc, Value tensor,
                    ArrayRef<OpFoldResult> sizes,
                    ArrayRef<ReassociationIndices> groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (groups.size() == sizes.size())
    return tensor;
  return builder.create<tensor::ExpandShapeOp>(
      loc, typeOf(sizes, type.getElementType()), tensor, groups, sizes);
}

/// Whether expand_shape can express the group: its sizes are symbolic on both
/// sides or on none.
static bool canExpand(Value tensor, ArrayRef<OpFoldResult> sizes,
                      ArrayRef<ReassociationIndices> groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  for (auto [dim, group] : llvm::enumerate(groups)) {
    bool dynamic = llvm::any_of(group, [&](int64_t member) {
      return !getConstantIntValue(sizes[member]);
    });
    if (dynamic != type.isDynamicDim(dim))
      return false;
  }
  return true;
}

/// A reshape that no reassociation expresses: a static total that is split into
/// symbolic sizes, or the reverse.
static Value reshapeByIndex(OpBuilder &builder, Location loc, Value tensor,
                            ArrayRef<OpFoldResult> sizes) {
  auto type = cast<RankedTensorType>(tensor.getType());
  ReassociationIndices all =
      llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank()));
  Value flat = collapse(builder, loc, tensor, {all});
  Value init =
      builder.create<tensor::EmptyOp>(loc, sizes, type.getElementType());
  SmallVector<Value> extents;
  for (OpFoldResult size : sizes)
    extents.push_back(asIndex(builder, loc, size));
  SmallVector<utils::IteratorType> iterators(sizes.size(),
                                             utils::IteratorType::parallel);
  auto generic = builder.create<linalg::GenericOp>(
      loc, TypeRange{init.getType()}, ValueRange{}, ValueRange{init},
      ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(sizes.size())},
      iterators, [&](OpBuilder &nested, Location at, ValueRange) {
        Value position = nested.create<linalg::IndexOp>(at, 0);
        for (size_t dim = 1; dim < extents.size(); ++dim) {
          position = nested.create<arith::MulIOp>(at, position, extents[dim]);
          position = nested.create<arith::AddIOp>(
              at, position, nested.create<linalg::IndexOp>(at, dim));
        }
        Value element = nested.create<tensor::ExtractOp>(at, flat, position);
        nested.create<linalg::YieldOp>(at, element);
      });
  return generic.getResult(0);
}

Value reshape(OpBuilder &builder, Location loc, Value tensor,
              ArrayRef<OpFoldResult> sizes) {
  Sizes source = sizesOf(builder, loc, tensor);
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  // A tensor without elements has no order, and products with zeros tell
  // nothing.
  auto isZero = [](OpFoldResult size) { return isConstantIntValue(size, 0); };
  if (llvm::any_of(source, isZero) || llvm::any_of(sizes, isZero))
    return builder.create<tensor::EmptyOp>(loc, sizes, element);

  // Rank zero means a product of one, on either side.
  if (source.empty() || sizes.empty()) {
    if (source.size() == sizes.size())
      return tensor;
    return source.empty() ? expand(builder, loc, tensor, sizes, {})
                          : collapse(builder, loc, tensor, {});
  }
  SmallVector<ReassociationIndices> collapsed, expanded;
  for (const MatchedDims &group : matchDims(source, sizes)) {
    collapsed.push_back(group.source);
    expanded.push_back(group.result);
  }
  Value packed = collapse(builder, loc, tensor, collapsed);
  if (!canExpand(packed, sizes, expanded))
    return reshapeByIndex(builder, loc, tensor, sizes);
  return expand(builder, loc, packed, sizes, expanded);
}

} // namespace importer
} // namespace anabranch
