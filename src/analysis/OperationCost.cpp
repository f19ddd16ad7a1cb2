//===- OperationCost.cpp - what one operation of a body costs -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/OperationCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/CastInterfaces.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

using Class = OperationCost::Class;

static Class classOf(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() ||
      op->hasTrait<OpTrait::ConstantLike>() || isa<linalg::IndexOp>(op))
    return Class::Free;
  if (isa<tensor::ExtractOp>(op))
    return Class::Gather;
  if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
      isa<math::AbsFOp, math::AbsIOp, math::FmaOp>(op))
    return Class::Simple;
  if (isa<math::CopySignOp, math::CeilOp, math::FloorOp, math::TruncOp,
          math::RoundEvenOp>(op))
    return Class::Rounding;
  if (isa<math::SqrtOp, math::RsqrtOp, math::RoundOp, math::IPowIOp,
          math::FPowIOp>(op))
    return Class::Root;
  return Class::Function;
}

static int64_t operationsOf(Class kind) {
  switch (kind) {
  case Class::Free:
    return 0;
  case Class::Simple:
  case Class::Gather:
    return 1;
  case Class::Rounding:
  case Class::Root:
  case Class::Function:
    return 20;
  }
  return 1;
}

static int64_t flopsOf(Operation *op) {
  bool isReal = llvm::any_of(op->getOperandTypes(),
                             [](Type type) { return isa<FloatType>(type); });
  bool isFree = isa<arith::SelectOp>(op) || isa<CastOpInterface>(op);
  return isReal && !isFree &&
         isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

OperationCost costOf(Operation *op) {
  Class kind = classOf(op);
  return {kind, operationsOf(kind), flopsOf(op)};
}

int64_t operationsOf(Operation *op) {
  int64_t total = 0;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) { total += costOf(inner).operations; });
  return total;
}

int64_t flopsOf(Region &body) {
  int64_t total = 0;
  body.walk([&](Operation *inner) { total += costOf(inner).flops; });
  return total;
}

static bool hasAny(Operation *op, ArrayRef<Class> kinds) {
  bool found = false;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      found |= llvm::is_contained(kinds, classOf(inner));
    });
  return found;
}

bool readsMany(Operation *op) {
  constexpr unsigned many = 8;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic.getNumDpsInputs() >= many;
}

bool isCostlyToRepeat(Operation *op) {
  return readsMany(op) ||
         hasAny(op, {Class::Gather, Class::Root, Class::Function});
}

bool isCostlierThanMemory(Operation *op) {
  return readsMany(op) || hasAny(op, {Class::Function});
}

} // namespace analysis
} // namespace anabranch
