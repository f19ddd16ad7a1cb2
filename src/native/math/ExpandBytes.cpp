//===- ExpandBytes.cpp - arithmetic of quantised graphs -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/ExpandBytes.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace anabranch {
namespace native {

static Value callIntrinsic(ImplicitLocOpBuilder &b, StringRef name, Type type,
                           ValueRange operands) {
  return b.create<LLVM::CallIntrinsicOp>(type, b.getStringAttr(name), operands)
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Products of bytes
//===----------------------------------------------------------------------===//

static constexpr int64_t bytesOfWord = 4, bitsOfByte = 8;

namespace {

/// Builds the value of one byte_dot.
class ByteDot {
public:
  explicit ByteDot(ir::ByteDotOp op) : b(op.getLoc(), op), op(op) {}

  Value expand(const TargetInfo &target);

private:
  ImplicitLocOpBuilder b;
  ir::ByteDotOp op;

  Value constant(int32_t number);
  Value fence(Value bytes);
  Value beside(Value first, Value second, int64_t each);
  Value joinBytes(int64_t count);
  Value addSingly();
};

Value ByteDot::constant(int32_t number) {
  TypedAttr value = b.getI32IntegerAttr(number);
  if (auto vector = dyn_cast<VectorType>(op.getType()))
    value = DenseElementsAttr::get(vector, number);
  return b.create<arith::ConstantOp>(value);
}

/// The same vector, made as it is written: LLVM would choose a permutation of
/// two registers, which takes Intel's processors three times as long as one of
/// a register.
Value ByteDot::fence(Value bytes) {
  int64_t count = cast<VectorType>(bytes.getType()).getNumElements();
  Type floats = VectorType::get({count / bytesOfWord}, b.getF32Type());
  Value same = callIntrinsic(b, "llvm.arithmetic.fence", floats,
                             {b.create<LLVM::BitcastOp>(floats, bytes)});
  return b.create<LLVM::BitcastOp>(bytes.getType(), same);
}

/// A vector with the elements of both. `second` may be missing.
Value ByteDot::beside(Value first, Value second, int64_t each) {
  constexpr int32_t nothing = -1;
  SmallVector<int32_t> order;
  for (int64_t i = 0; i < 2 * each; ++i)
    order.push_back(second || i < each ? static_cast<int32_t>(i) : nothing);
  return b.create<LLVM::ShuffleVectorOp>(first, second ? second : first, order);
}

/// The words whose bytes are, from the lowest one on, those of the vectors.
/// Bytes of missing vectors are those of the first one: weights there are zero.
/// All vectors lie in one register before a single permutation of its bytes.
Value ByteDot::joinBytes(int64_t count) {
  ValueRange bytes = op.getBytes();
  auto partAt = [&](size_t i) { return i < bytes.size() ? bytes[i] : Value(); };
  Value low = beside(bytes[0], partAt(1), count), high;
  if (Value third = partAt(2))
    high = beside(third, partAt(3), count);
  Value all = fence(beside(low, high, 2 * count));
  SmallVector<int32_t> order;
  for (int64_t lane = 0; lane < count; ++lane)
    for (int64_t byte = 0; byte < bytesOfWord; ++byte) {
      int64_t vector = byte < static_cast<int64_t>(bytes.size()) ? byte : 0;
      order.push_back(static_cast<int32_t>(vector * count + lane));
    }
  Value mixed = b.create<LLVM::ShuffleVectorOp>(all, all, order);
  return b.create<LLVM::BitcastOp>(op.getType(), mixed);
}

/// The sum of single products.
Value ByteDot::addSingly() {
  Type type = op.getType();
  Value sum = op.getSum();
  Value shift = constant(bitsOfByte * (bytesOfWord - 1));
  for (auto [i, byte] : llvm::enumerate(op.getBytes())) {
    auto above = static_cast<int32_t>(bitsOfByte * (bytesOfWord - 1 - i));
    Value weight = b.create<arith::ShLIOp>(op.getWeights(), constant(above));
    Value factor;
    if (op.getUnsignedWeights()) {
      weight = b.create<arith::ShRUIOp>(weight, shift);
      factor = b.create<arith::ExtSIOp>(type, byte);
    } else {
      weight = b.create<arith::ShRSIOp>(weight, shift);
      factor = b.create<arith::ExtUIOp>(type, byte);
    }
    Value product = b.create<arith::MulIOp>(factor, weight);
    sum = b.create<arith::AddIOp>(sum, product);
  }
  return sum;
}

Value ByteDot::expand(const TargetInfo &target) {
  auto vector = dyn_cast<VectorType>(op.getType());
  int64_t count = vector ? vector.getNumElements() : 1;
  if (!target.isa().hasByteDot(Isa::ByteSigns::Mixed, count))
    return addSingly();
  Value words = joinBytes(count), weights = op.getWeights();
  // The unsigned bytes come first.
  if (op.getUnsignedWeights())
    std::swap(words, weights);
  return target.isa().dotBytes(b, op.getLoc(), Isa::ByteSigns::Mixed,
                               op.getSum(), words, weights);
}

} // namespace

void expandByteDots(ModuleOp module, const TargetInfo &target) {
  module.walk([&](ir::ByteDotOp op) {
    op.replaceAllUsesWith(ByteDot(op).expand(target));
    op.erase();
  });
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

void expandRounding(ModuleOp module) {
  module.walk([&](arith::FPToSIOp op) {
    auto rounding = op.getIn().getDefiningOp<math::RoundEvenOp>();
    if (!rounding || !getElementTypeOrSelf(op.getType()).isInteger(32) ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32())
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    op.replaceAllUsesWith(
        callIntrinsic(b, "llvm.lrint", op.getType(), {rounding.getOperand()}));
    op.erase();
  });
}

} // namespace native
} // namespace anabranch
