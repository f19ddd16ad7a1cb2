//===- AccessMap.cpp - what a loop nest reads, and where ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/AccessMap.h"

#include "analysis/OperationCost.h"
#include "analysis/ReshapeIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

//===----------------------------------------------------------------------===//
// SymbolicIndex
//===----------------------------------------------------------------------===//

std::optional<unsigned> SymbolicIndex::plainLoop() const {
  if (auto dim = dyn_cast_or_null<AffineDimExpr>(expr))
    return dim.getPosition();
  return std::nullopt;
}

static std::optional<int64_t> growthOf(AffineExpr expr, unsigned loop) {
  if (!expr.isFunctionOfDim(loop))
    return 0;
  if (isa<AffineDimExpr>(expr))
    return 1;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  AffineExpr left = binary.getLHS(), right = binary.getRHS();
  switch (expr.getKind()) {
  case AffineExprKind::Add: {
    auto a = growthOf(left, loop), b = growthOf(right, loop);
    if (a && b)
      return *a + *b;
    return std::nullopt;
  }
  case AffineExprKind::Mul: {
    auto factor = dyn_cast<AffineConstantExpr>(right);
    auto a = growthOf(left, loop);
    if (factor && a)
      return *a * factor.getValue();
    return std::nullopt;
  }
  case AffineExprKind::Mod:
    return growthOf(left, loop);
  case AffineExprKind::FloorDiv:
    return 0;
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> SymbolicIndex::growth(unsigned loop) const {
  if (!loops.test(loop))
    return 0;
  if (!expr)
    return std::nullopt;
  return growthOf(expr, loop);
}

static bool sameIndex(ArrayRef<SymbolicIndex> a, ArrayRef<SymbolicIndex> b) {
  if (a.size() != b.size())
    return false;
  for (auto [left, right] : llvm::zip(a, b))
    if (left.expr != right.expr || left.loops != right.loops)
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

SmallVector<SymbolicIndex> ReadCollector::identity() {
  SmallVector<SymbolicIndex> point;
  for (unsigned i = 0; i < loops; ++i) {
    llvm::SmallBitVector bits(loops);
    bits.set(i);
    point.push_back({getAffineDimExpr(i, context), bits});
  }
  return point;
}

SymbolicIndex ReadCollector::unknown() {
  return {AffineExpr(), llvm::SmallBitVector(loops)};
}

SymbolicIndex ReadCollector::constant(int64_t value) {
  return {getAffineConstantExpr(value, context), llvm::SmallBitVector(loops)};
}

SymbolicIndex ReadCollector::depend(ArrayRef<SymbolicIndex> on) {
  SymbolicIndex result = unknown();
  for (const SymbolicIndex &index : on)
    result.loops |= index.loops;
  return result;
}

SymbolicIndex ReadCollector::size(OpFoldResult size) {
  if (auto known = getConstantIntValue(size))
    return constant(*known);
  Value value = cast<Value>(size);
  auto found = llvm::find(reads.symbols, value);
  unsigned number = found - reads.symbols.begin();
  if (found == reads.symbols.end())
    reads.symbols.push_back(value);
  return {getAffineSymbolExpr(number, context), llvm::SmallBitVector(loops)};
}

SymbolicIndex ReadCollector::dim(Value tensor, int64_t dimension) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dimension))
    return constant(type.getDimSize(dimension));
  if (auto expand = tensor.getDefiningOp<tensor::ExpandShapeOp>())
    return size(expand.getOutputShape()[type.getDynamicDimIndex(dimension)]);
  return unknown();
}

SymbolicIndex ReadCollector::combine(AffineExprKind kind, SymbolicIndex a,
                                     SymbolicIndex b) {
  SymbolicIndex result = depend({a, b});
  if (!a.expr || !b.expr)
    return result;
  // A sum stays affine if both sides depend on loops; a product or a quotient
  // does not.
  bool affine = kind == AffineExprKind::Add || b.expr.isSymbolicOrConstant() ||
                (kind == AffineExprKind::Mul && a.expr.isSymbolicOrConstant());
  bool divides =
      kind == AffineExprKind::FloorDiv || kind == AffineExprKind::Mod;
  auto divisor = dyn_cast<AffineConstantExpr>(b.expr);
  if (affine && !(divides && divisor && divisor.getValue() < 1))
    result.expr = getAffineBinaryOpExpr(kind, a.expr, b.expr);
  return result;
}

SmallVector<SymbolicIndex> ReadCollector::apply(AffineMap map,
                                                ArrayRef<SymbolicIndex> point) {
  SmallVector<SymbolicIndex> results;
  SmallVector<AffineExpr> exprs;
  for (const SymbolicIndex &index : point)
    exprs.push_back(index.expr);
  for (AffineExpr expr : map.getResults()) {
    SymbolicIndex result = unknown();
    bool known = true;
    for (unsigned i = 0; i < point.size(); ++i) {
      if (!expr.isFunctionOfDim(i))
        continue;
      result.loops |= point[i].loops;
      known &= bool(point[i].expr);
    }
    if (known) {
      // An index without an expression may belong to a dimension that `expr`
      // does not use. Zero stands in for it.
      SmallVector<AffineExpr> safe;
      for (AffineExpr replacement : exprs)
        safe.push_back(replacement ? replacement
                                   : getAffineConstantExpr(0, context));
      result.expr = expr.replaceDims(safe);
    }
    results.push_back(result);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Visiting
//===----------------------------------------------------------------------===//

bool ReadCollector::isNew(Value tensor, ArrayRef<SymbolicIndex> index) {
  for (const Read &read : visited)
    if (read.tensor == tensor && sameIndex(read.index, index))
      return false;
  visited.push_back({tensor, llvm::to_vector(index)});
  return true;
}

void ReadCollector::visit(Value tensor, ArrayRef<SymbolicIndex> index) {
  if (!isNew(tensor, index))
    return;
  if (isa<BlockArgument>(tensor) || isLeaf(tensor)) {
    reads.reads.push_back({tensor, llvm::to_vector(index), isGuarded});
    return;
  }
  Operation *op = tensor.getDefiningOp();
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return visitView(op, index);
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  AffineMap map =
      generic.getIndexingMapsArray()[generic.getNumDpsInputs() + result];
  SmallVector<SymbolicIndex> point(generic.getNumLoops(), unknown());
  for (auto [position, expr] : llvm::zip(index, map.getResults()))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      point[dim.getPosition()] = position;
  if (result != 0 && !isNew(generic.getResult(0), point))
    return;
  if (isCostlierThanMemory(generic))
    reads.expensive.push_back({tensor, llvm::to_vector(index)});
  visitBody(generic, point, /*withOutputs=*/true);
}

void ReadCollector::visitBody(linalg::GenericOp op,
                              ArrayRef<SymbolicIndex> point, bool withOutputs) {
  SmallVector<SymbolicIndex> arguments;
  for (auto [number, argument] :
       llvm::enumerate(op.getRegion().getArguments())) {
    arguments.push_back(unknown());
    if (argument.use_empty() ||
        (!withOutputs && number >= static_cast<size_t>(op.getNumDpsInputs())))
      continue;
    SmallVector<SymbolicIndex> index =
        apply(op.getIndexingMapsArray()[number], point);
    arguments.back() = depend(index);
    visit(op->getOperand(number), index);
  }
  visitRegion(op.getRegion().front(), arguments, point);
}

void ReadCollector::visitRegion(Block &block, ArrayRef<SymbolicIndex> arguments,
                                ArrayRef<SymbolicIndex> point) {
  llvm::DenseMap<Value, SymbolicIndex> values;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  auto valueOf = [&](Value value) -> SymbolicIndex {
    auto found = values.find(value);
    if (found != values.end())
      return found->second;
    APInt integer;
    if (matchPattern(value, m_ConstantInt(&integer)))
      return constant(integer.getSExtValue());
    return value.getType().isIntOrIndex() ? size(value) : unknown();
  };
  for (Operation &op : block.without_terminator()) {
    SmallVector<SymbolicIndex> operands;
    for (Value operand : op.getOperands())
      operands.push_back(valueOf(operand));
    SymbolicIndex result = depend(operands);
    if (auto extract = dyn_cast<tensor::ExtractOp>(op))
      visit(extract.getTensor(), ArrayRef(operands).drop_front());
    else if (auto index = dyn_cast<linalg::IndexOp>(op))
      result = point[index.getDim()];
    else if (isa<arith::AddIOp>(op))
      result = combine(AffineExprKind::Add, operands[0], operands[1]);
    else if (isa<arith::MulIOp>(op))
      result = combine(AffineExprKind::Mul, operands[0], operands[1]);
    else if (isa<arith::IndexCastOp>(op))
      result = operands[0];
    if (isa<linalg::IndexOp>(op))
      reads.numbered |= result.loops;
    if (op.getNumResults() == 1)
      values[op.getResult(0)] = result;
    reads.operations += std::max<int64_t>(1, costOf(&op).operations);
  }
}

void ReadCollector::visitView(Operation *op, ArrayRef<SymbolicIndex> index) {
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<SymbolicIndex> source;
    unsigned kept = 0;
    for (auto [i, offset] : llvm::enumerate(slice.getMixedOffsets())) {
      source.push_back(size(offset));
      if (dropped.test(i))
        continue;
      SymbolicIndex scaled = combine(AffineExprKind::Mul, index[kept++],
                                     size(slice.getMixedStrides()[i]));
      source.back() = combine(AffineExprKind::Add, scaled, source.back());
    }
    return visit(slice.getSource(), source);
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<SymbolicIndex> source;
    for (const ReassociationIndices &group : expand.getReassociationIndices()) {
      auto step = [&](const SymbolicIndex &position, int64_t part) {
        SymbolicIndex scaled = combine(AffineExprKind::Mul, position,
                                       dim(expand.getResult(), part));
        return combine(AffineExprKind::Add, scaled, index[part]);
      };
      source.push_back(joinIndex(group, constant(0), step));
    }
    return visit(expand.getSrc(), source);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    SmallVector<SymbolicIndex> source(collapse.getSrcType().getRank(),
                                      constant(0));
    auto divide = [&](const SymbolicIndex &position, int64_t part) {
      SymbolicIndex size = dim(collapse.getSrc(), part);
      SymbolicIndex rest = combine(AffineExprKind::Mod, position, size);
      return std::pair(combine(AffineExprKind::FloorDiv, position, size), rest);
    };
    for (auto [position, group] :
         llvm::zip(index, collapse.getReassociationIndices()))
      splitIndex<SymbolicIndex>(group, collapse.getSrcType().getShape(),
                                position, source, divide);
    return visit(collapse.getSrc(), source);
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    llvm::SmallBitVector dropped = insert.getDroppedDims();
    SmallVector<SymbolicIndex> source;
    for (auto [i, offset] : llvm::enumerate(insert.getMixedOffsets())) {
      // A piece that covers a part of the tensor is chosen by the element's
      // position, so the loops' numbers are used.
      if (getConstantIntValue(insert.getMixedSizes()[i]) !=
          std::optional<int64_t>(insert.getDestType().getDimSize(i)))
        reads.numbered |= index[i].loops;
      if (dropped.test(i))
        continue;
      SymbolicIndex minus =
          combine(AffineExprKind::Mul, size(offset), constant(-1));
      SymbolicIndex moved = combine(AffineExprKind::Add, index[i], minus);
      source.push_back(getConstantIntValue(insert.getMixedStrides()[i]) == 1
                           ? moved
                           : depend(moved));
    }
    bool wasGuarded = std::exchange(isGuarded, true);
    visit(insert.getSource(), source);
    isGuarded = wasGuarded;
    return visit(insert.getDest(), index);
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    visit(cast.getSource(), index);
}

} // namespace analysis
} // namespace anabranch
