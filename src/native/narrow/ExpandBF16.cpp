//===- ExpandBF16.cpp - f32 to bf16 and back ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/narrow/ExpandBF16.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "native/math/MathBuilder.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr StringRef flushes = "anabranch.flushes_bf16";

bool converts(Operation *op, bool toBF16) {
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  return toBF16 ? from.isF32() && to.isBF16() : from.isBF16() && to.isF32();
}

bool isRounding(Operation *op) {
  return isa_and_nonnull<arith::TruncFOp>(op) && converts(op, true);
}

bool isWidening(Operation *op) {
  return isa_and_nonnull<arith::ExtFOp>(op) && converts(op, false);
}

/// Whether every element of a constant is a number of bf16.
bool isExactConstant(Value value) {
  auto isExact = [](APFloat number) {
    bool loses = false;
    (void)number.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven,
                         &loses);
    return !loses;
  };
  DenseFPElementsAttr elements;
  APFloat number(0.0);
  if (matchPattern(value, m_Constant(&elements)))
    return llvm::all_of(elements.getValues<APFloat>(), isExact);
  return matchPattern(value, m_ConstantFloat(&number)) && isExact(number);
}

//===-- Roundings and extrema
//----------------------------------------------===//
//
// Rounding keeps the order of numbers, and numbers of bf16 as they are. So the
// largest of rounded numbers is the largest of them, rounded. A convolution's
// ReLU needs one rounding then, where PyTorch's operators have one each.

/// A value that rounds to `value`, which is a number of bf16: itself, or one
/// that is not rounded yet. Null if `value` may be no such number.
Value unrounded(Value value) {
  Operation *op = value.getDefiningOp();
  if (isWidening(op)) {
    Operation *source = op->getOperand(0).getDefiningOp();
    return isRounding(source) ? source->getOperand(0) : value;
  }
  if (!isa_and_nonnull<arith::MaximumFOp, arith::MinimumFOp>(op))
    return isExactConstant(value) ? value : Value();
  Value a = unrounded(op->getOperand(0)), b = unrounded(op->getOperand(1));
  if (!a || !b)
    return Value();
  if (a == op->getOperand(0) && b == op->getOperand(1))
    return value;
  OpBuilder builder(op);
  OperationState state(op->getLoc(), op->getName(), {a, b}, value.getType());
  return builder.create(state)->getResult(0);
}

/// Lets the rounding take a number that was not rounded before, where there is
/// one. Returns whether nothing is left to round.
bool roundOnce(Operation *rounding) {
  Value rounded = rounding->getOperand(0);
  Value source = unrounded(rounded);
  if (source)
    rounding->setOperand(0, source);
  return source == rounded;
}

//===-- Instructions
//-------------------------------------------------------===//

class ConversionExpander {
public:
  ConversionExpander(Operation *op, const TargetInfo &target)
      : op(op), builder(op), target(target),
        wide(isRounding(op) ? op->getOperand(0).getType()
                            : op->getResult(0).getType()),
        math(builder, op->getLoc(), wide, target) {}

  /// The bits of the rounded number, as integers of 16 bits.
  Value round(bool isExact) {
    if (isExact)
      return upperHalves(math.bits(op->getOperand(0)));
    Value instruction = roundByInstruction();
    return instruction ? instruction : roundExactly();
  }

  Value widen(Value narrow) {
    Value bits = builder.create<arith::ExtUIOp>(op->getLoc(), math.bitsType,
                                                asIntegers(narrow));
    return math.fromBits(math.shiftLeft(bits, 16));
  }

  Value asBF16(Value integers) {
    return builder.create<arith::BitcastOp>(
        op->getLoc(), math.withElement(builder.getBF16Type()), integers);
  }

private:
  Operation *op;
  OpBuilder builder;
  const TargetInfo &target;
  Type wide;
  MathBuilder math;

  /// The integers of a bf16 that is itself a cast, so that no value passes
  /// through a type that the processor may lack.
  Value asIntegers(Value narrow) {
    Type type = math.withElement(builder.getI16Type());
    auto cast = narrow.getDefiningOp<arith::BitcastOp>();
    if (cast && cast.getIn().getType() == type)
      return cast.getIn();
    return builder.create<arith::BitcastOp>(op->getLoc(), type, narrow);
  }

  Value roundByInstruction() {
    auto function = op->getParentOfType<func::FuncOp>();
    if (!function || !function->hasAttr(flushes))
      return Value();
    Value narrow =
        target.isa().roundToBF16(builder, op->getLoc(), op->getOperand(0));
    return narrow ? asIntegers(narrow) : Value();
  }

  Value roundExactly() {
    Value number = op->getOperand(0);
    Value bits = math.bits(number);
    Value odd = math.andBits(math.shiftRight(bits, 16), math.integer(1));
    Value rounded = math.addBits(bits, math.addBits(odd, math.integer(0x7fff)));
    return upperHalves(
        math.select(math.isNan(number), math.integer(0x7fc00000), rounded));
  }

  /// The upper halves of integers of 32 bits. On vectors one permutation takes
  /// the place of a shift and of a truncation of three instructions.
  Value upperHalves(Value bits) {
    Type i16 = builder.getI16Type();
    auto vector = dyn_cast<VectorType>(bits.getType());
    if (!vector || vector.getRank() != 1)
      return builder.create<arith::TruncIOp>(
          op->getLoc(), math.withElement(i16), math.shiftRight(bits, 16));
    int64_t width = vector.getNumElements();
    Value halves = builder.create<vector::BitCastOp>(
        op->getLoc(), VectorType::get({2 * width}, i16), bits);
    SmallVector<int64_t> odd;
    for (int64_t lane = 0; lane < width; ++lane)
      odd.push_back(2 * lane + 1);
    return builder.create<vector::ShuffleOp>(op->getLoc(), halves, halves, odd);
  }
};

/// Users that take the rounded number's bits get the integers.
void replaceRounding(Operation *op, Value integers, Value narrow) {
  for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
    if (auto cast = dyn_cast<arith::BitcastOp>(user))
      if (cast.getType() == integers.getType()) {
        cast.replaceAllUsesWith(integers);
        cast.erase();
      }
  op->getResult(0).replaceAllUsesWith(narrow);
  op->erase();
}

} // namespace

void allowFlushingBF16(func::FuncOp function) {
  function->setAttr(flushes, UnitAttr::get(function.getContext()));
}

void expandBF16(ModuleOp module, const TargetInfo &target) {
  SmallVector<Operation *> roundings, widenings;
  module.walk([&](Operation *op) {
    if (isRounding(op))
      roundings.push_back(op);
    else if (isWidening(op))
      widenings.push_back(op);
  });
  llvm::SmallPtrSet<Operation *, 16> exact;
  for (Operation *op : roundings)
    if (roundOnce(op))
      exact.insert(op);
  for (Operation *op : roundings) {
    ConversionExpander expander(op, target);
    Value integers = expander.round(exact.contains(op));
    replaceRounding(op, integers, expander.asBF16(integers));
  }
  for (Operation *op : widenings) {
    Value wide = ConversionExpander(op, target).widen(op->getOperand(0));
    op->getResult(0).replaceAllUsesWith(wide);
    op->erase();
  }
}

} // namespace native
} // namespace anabranch
