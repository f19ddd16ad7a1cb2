//===- PortableIsa.cpp - plain vectors, for any processor -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/portable/PortableIsa.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace anabranch {
namespace native {

bool PortableIsa::has(Multiply multiply) const {
  return multiply == Multiply::FmaF32;
}

/// The even and the odd halves of words, as signed integers of 32 bits.
static std::pair<Value, Value> splitShorts(OpBuilder &b, Location loc,
                                           Value shorts) {
  constexpr int32_t halfBits = 16;
  int64_t lanes = cast<VectorType>(shorts.getType()).getNumElements() / 2;
  auto type = VectorType::get({lanes}, b.getI32Type());
  Value words = b.create<LLVM::BitcastOp>(loc, type, shorts);
  Value half = b.create<arith::ConstantOp>(
      loc, type, DenseElementsAttr::get(type, halfBits));
  Value low = b.create<arith::ShLIOp>(loc, words, half);
  return {b.create<arith::ShRSIOp>(loc, low, half),
          b.create<arith::ShRSIOp>(loc, words, half)};
}

Value PortableIsa::dotShorts(OpBuilder &b, Location loc, Value first,
                             Value second) const {
  auto [firstEven, firstOdd] = splitShorts(b, loc, first);
  auto [secondEven, secondOdd] = splitShorts(b, loc, second);
  Value even = b.create<arith::MulIOp>(loc, firstEven, secondEven);
  Value odd = b.create<arith::MulIOp>(loc, firstOdd, secondOdd);
  return b.create<arith::AddIOp>(loc, even, odd);
}

/// One element after the other.
Value PortableIsa::lookupIn(OpBuilder &b, Location loc, Value table,
                            Value index) const {
  int64_t lanes = cast<VectorType>(index.getType()).getNumElements();
  auto type = VectorType::get({lanes}, b.getF32Type());
  Value found =
      b.create<arith::ConstantOp>(loc, cast<TypedAttr>(b.getZeroAttr(type)));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value at = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(lane));
    Value position = b.create<LLVM::ExtractElementOp>(loc, index, at);
    Value element = b.create<LLVM::ExtractElementOp>(loc, table, position);
    found = b.create<LLVM::InsertElementOp>(loc, found, element, at);
  }
  return found;
}

// Nobody asks for these: the questions above say that they do not exist.

Value PortableIsa::dotBytes(OpBuilder &, Location, ByteSigns, Value, Value,
                            Value) const {
  llvm_unreachable("there is no product of bytes");
}

Value PortableIsa::dotBF16(OpBuilder &, Location, Value, Value, Value) const {
  llvm_unreachable("there is no product of bf16");
}

Value PortableIsa::multiplyMatrices(OpBuilder &, Location, MatrixProduct, Value,
                                    Value, Value) const {
  llvm_unreachable("there is no product of matrices");
}

Value PortableIsa::scale(OpBuilder &, Location, Value, Value) const {
  llvm_unreachable("there is no scaling by a power of two");
}

Value PortableIsa::lookup(OpBuilder &, Location, DenseElementsAttr,
                          Value) const {
  llvm_unreachable("there is no lookup in a table");
}

} // namespace native
} // namespace anabranch
