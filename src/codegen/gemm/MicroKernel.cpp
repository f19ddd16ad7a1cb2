//===- MicroKernel.cpp - a block of a matrix product in registers ---------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/MicroKernel.h"

#include "codegen/emit/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

static constexpr int64_t lineBytes = 64;

func::FuncOp MicroKernel::create(OpBuilder &builder, Operation *where,
                                 StringRef name) const {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(where);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  SmallVector<Type> types(rows, pointer);
  types.append({i64, pointer, i64, pointer, i64, builder.getI1Type()});
  if (needsStarts())
    types.push_back(pointer);
  auto function = builder.create<func::FuncOp>(
      where->getLoc(), name, builder.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  // The sums overlap nothing that is read.
  function.setArgAttr(rows + 3, "llvm.noalias", builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  fill(builder, function);
  return function;
}

/// A vector of the right operand, widened to the type of the sums.
Value MicroKernel::loadColumns(LaneBuilder &inner, Value pointer) const {
  OpBuilder &b = inner.builder;
  Type stored = right && right != element ? right : element;
  Type loaded = stored.isBF16() ? b.getI16Type() : stored;
  Value vector =
      b.create<LLVM::LoadOp>(inner.loc, VectorType::get({lanes}, loaded),
                             pointer, elementBytes(stored));
  if (stored.isBF16()) {
    Type narrow = VectorType::get({lanes}, stored);
    return extendBF16(inner, inner.make<arith::BitcastOp>(narrow, vector));
  }
  if (stored != element)
    return inner.make<arith::ExtFOp>(VectorType::get({lanes}, element), vector);
  return vector;
}

Value dotPairs(LaneBuilder &lanes, Value sum, Value a, Value b) {
  auto type = cast<VectorType>(sum.getType());
  Type pairs =
      VectorType::get({2 * type.getNumElements()}, lanes.builder.getBF16Type());
  auto asPairs = [&](Value value) -> Value {
    return lanes.builder.create<LLVM::BitcastOp>(lanes.loc, pairs, value);
  };
  return lanes.builder
      .create<LLVM::CallIntrinsicOp>(
          lanes.loc, Type(type), StringRef("llvm.x86.avx512bf16.dpbf16ps.512"),
          ValueRange{sum, asPairs(a), asPairs(b)})
      .getResult(0);
}

Value multiplyAddVectors(LaneBuilder &lanes, Value a, Value b, Value sum) {
  if (isa<FloatType>(laneType(sum)))
    return lanes.builder.create<vector::FMAOp>(lanes.loc, a, b, sum);
  return lanes.make<arith::AddIOp>(lanes.make<arith::MulIOp>(a, b), sum);
}

ByteDots::Ready MicroKernel::readyColumns(LaneBuilder &inner,
                                          Value pointer) const {
  Value columns = loadColumns(inner, pointer);
  if (bytes)
    return bytes->right(inner, columns);
  return {columns};
}

/// An element of the left operand in all lanes.
ByteDots::Ready MicroKernel::readyFactor(LaneBuilder &inner,
                                         Value pointer) const {
  Value scalar = inner.builder.create<LLVM::LoadOp>(inner.loc, element, pointer,
                                                    elementBytes(element));
  Value factor = inner.builder.create<vector::BroadcastOp>(
      inner.loc, VectorType::get({lanes}, element), scalar);
  if (bytes)
    return bytes->left(inner, factor);
  return {factor};
}

Value MicroKernel::multiplyAdd(LaneBuilder &inner,
                               const ByteDots::Ready &factor,
                               const ByteDots::Ready &columns,
                               Value sum) const {
  if (bytes)
    return bytes->add(inner, sum, factor, columns);
  if (pairs)
    return dotPairs(inner, sum, factor[0], columns[0]);
  return multiplyAddVectors(inner, factor[0], columns[0], sum);
}

void MicroKernel::fill(OpBuilder &b, func::FuncOp function) const {
  // A builder of its own: values of other functions can't be used here.
  LaneBuilder inner(b, function.getLoc());
  auto type = VectorType::get({lanes}, element);
  int64_t bytesOfElement = elementBytes(element);
  auto argument = [&](unsigned i) { return function.getArgument(i); };
  Value leftBytes =
      leftStep ? inner.i64(*leftStep * bytesOfElement) : argument(rows);
  Value first = argument(rows + 1), sums = argument(rows + 3);
  int64_t columnBytes = right ? elementBytes(right) : bytesOfElement;
  Value rightBytes =
      rightStep ? inner.i64(*rightStep * columnBytes) : argument(rows + 2);
  auto move = [&](Value from, Value by) -> Value {
    return b.create<LLVM::GEPOp>(inner.loc, from.getType(), b.getI8Type(), from,
                                 ArrayRef<LLVM::GEPArg>{by});
  };
  auto sumAt = [&](int64_t number) -> Value {
    int64_t offset = number / vectors * sumStride + number % vectors * lanes;
    return move(sums, inner.i64(offset * bytesOfElement));
  };

  int64_t count = rows * vectors;
  Value zero = inner.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Type> types(count, type);
  SmallVector<Value> initial = inner.ifElse(
      argument(rows + 5), types,
      [&] {
        SmallVector<Value> loaded;
        for (int64_t i = 0; i < count; ++i)
          loaded.push_back(b.create<LLVM::LoadOp>(inner.loc, type, sumAt(i),
                                                  bytesOfElement));
        return loaded;
      },
      [&] {
        SmallVector<Value> fresh(count, zero);
        for (int64_t i = 0; needsStarts() && i < count; ++i)
          fresh[i] = inner.make<vector::BroadcastOp>(
              type, b.create<LLVM::LoadOp>(
                        inner.loc, element,
                        move(argument(rows + 6),
                             inner.i64(i / vectors * bytesOfElement)),
                        bytesOfElement));
        return fresh;
      });

  Value end =
      inner.make<arith::IndexCastOp>(b.getIndexType(), argument(rows + 4));
  auto body = [&](Value k, ValueRange carried) {
    Value step = inner.toI64(k);
    Value leftOffset = inner.make<arith::MulIOp>(step, leftBytes);
    Value panelRow = move(first, inner.make<arith::MulIOp>(step, rightBytes));
    SmallVector<ByteDots::Ready> columns;
    SmallVector<Value> next;
    for (int64_t at = 0; ahead && at < vectors * lanes * columnBytes;
         at += lineBytes)
      b.create<LLVM::Prefetch>(inner.loc, move(panelRow, inner.i64(ahead + at)),
                               /*rw=*/0, /*hint=*/3, /*cache=*/1);
    for (int64_t j = 0; j < vectors; ++j)
      columns.push_back(readyColumns(
          inner, move(panelRow, inner.i64(j * lanes * columnBytes))));
    for (int64_t i = 0; i < rows; ++i) {
      ByteDots::Ready factor =
          readyFactor(inner, move(argument(i), leftOffset));
      for (int64_t j = 0; j < vectors; ++j)
        next.push_back(
            multiplyAdd(inner, factor, columns[j], carried[i * vectors + j]));
    }
    return next;
  };
  SmallVector<Value> results =
      inner.loop(inner.index(0), end, 1, initial, body);
  for (auto [i, value] : llvm::enumerate(results))
    b.create<LLVM::StoreOp>(inner.loc, value, sumAt(i), bytesOfElement);
  b.create<func::ReturnOp>(inner.loc);
}

void MicroKernel::call(LaneBuilder &lanes, func::FuncOp function,
                       const Arguments &arguments) const {
  Value unused = lanes.i64(0);
  SmallVector<Value> operands(arguments.left);
  operands.append(
      {arguments.leftStep ? arguments.leftStep : unused, arguments.right,
       arguments.rightStep ? arguments.rightStep : unused, arguments.sums,
       lanes.toI64(arguments.depth), arguments.continues});
  if (needsStarts())
    operands.push_back(arguments.starts);
  lanes.builder.create<func::CallOp>(lanes.loc, function, operands);
}

} // namespace codegen
} // namespace anabranch
