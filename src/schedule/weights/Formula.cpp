//===- Formula.cpp - arithmetic on elements of tensors --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/Formula.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>

using namespace mlir;

namespace anabranch {
namespace schedule {

using Kind = FormulaNode::Kind;

/// Emits an index that is never negative.
static Value emitIndex(OpBuilder &b, Location loc, AffineExpr expr,
                       const WeightPoint &at) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return std::array{at.column, at.depth, at.place}[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return b.create<arith::ConstantIndexOp>(loc, constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value left = emitIndex(b, loc, binary.getLHS(), at);
  Value right = emitIndex(b, loc, binary.getRHS(), at);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return b.create<arith::AddIOp>(loc, left, right);
  case AffineExprKind::Mul:
    return b.create<arith::MulIOp>(loc, left, right);
  case AffineExprKind::Mod:
    return b.create<arith::RemUIOp>(loc, left, right);
  default:
    return b.create<arith::DivUIOp>(loc, left, right);
  }
}

Value TensorElement::extract(OpBuilder &b, Location loc,
                             const WeightPoint &at) const {
  SmallVector<Value> position;
  for (AffineExpr expr : index)
    position.push_back(emitIndex(b, loc, expr, at));
  return b.create<tensor::ExtractOp>(loc, tensor, position);
}

Value Assumption::emit(OpBuilder &b, Location loc,
                       const WeightPoint &at) const {
  Value found = b.create<arith::IndexCastOp>(loc, b.getIndexType(),
                                             element.extract(b, loc, at));
  return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, found,
                                 emitIndex(b, loc, value, at));
}

Value toFloat(OpBuilder &b, Location loc, Value value, bool isUnsigned) {
  Type f32 = b.getF32Type(), type = value.getType();
  if (type == f32)
    return value;
  if (isa<FloatType>(type))
    return type.getIntOrFloatBitWidth() < 32
               ? b.create<arith::ExtFOp>(loc, f32, value).getResult()
               : b.create<arith::TruncFOp>(loc, f32, value).getResult();
  return isUnsigned ? b.create<arith::UIToFPOp>(loc, f32, value).getResult()
                    : b.create<arith::SIToFPOp>(loc, f32, value).getResult();
}

Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

FloatType FormulaNode::type(Builder &b) const {
  if (kind != Kind::Element && kind != Kind::Chosen)
    return b.getF32Type();
  auto type = dyn_cast<FloatType>(
      elementTypeOf(kind == Kind::Chosen ? table : element.tensor));
  return type && (type.isF16() || type.isBF16()) ? type : b.getF32Type();
}

Value FormulaNode::emit(OpBuilder &b, Location loc,
                        const WeightPoint &at) const {
  if (kind == Kind::Element)
    return toFloat(b, loc, element.extract(b, loc, at), element.isUnsigned);
  if (kind == Kind::Chosen) {
    Value position = b.create<arith::IndexCastUIOp>(
        loc, b.getIndexType(), element.extract(b, loc, at));
    return toFloat(b, loc, b.create<tensor::ExtractOp>(loc, table, position),
                   /*isUnsigned=*/false);
  }
  if (kind == Kind::Constant)
    return b.create<arith::ConstantOp>(
        loc, b.getF32FloatAttr(static_cast<float>(number)));
  Value first = left->emit(b, loc, at);
  if (kind == Kind::Exp2)
    return b.create<math::Exp2Op>(loc, first);
  Value second = right->emit(b, loc, at);
  switch (kind) {
  case Kind::Add:
    return b.create<arith::AddFOp>(loc, first, second);
  case Kind::Sub:
    return b.create<arith::SubFOp>(loc, first, second);
  case Kind::Mul:
    return b.create<arith::MulFOp>(loc, first, second);
  default:
    return b.create<arith::DivFOp>(loc, first, second);
  }
}

Formula constantFormula(double number) {
  FormulaNode node;
  node.number = number;
  return std::make_shared<FormulaNode>(std::move(node));
}

Formula combine(FormulaNode::Kind kind, Formula left, Formula right) {
  FormulaNode node;
  node.kind = kind;
  node.left = std::move(left);
  node.right = std::move(right);
  return std::make_shared<FormulaNode>(std::move(node));
}

} // namespace schedule
} // namespace anabranch
