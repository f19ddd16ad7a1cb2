//===- QuantizedMicroKernel.cpp - a block of a quantised product ----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/quantized/QuantizedMicroKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {
namespace {

constexpr int64_t lineBytes = 64, bytesAhead = 4096;
constexpr int64_t panelBytes = ir::QuantizedWeight::panelColumns * 4;

Value splat(LaneBuilder &lanes, Type type, int64_t number) {
  Type element = getElementTypeOrSelf(type);
  return lanes.constant(DenseElementsAttr::get(
      cast<ShapedType>(type), Attribute(IntegerAttr::get(element, number))));
}

Value callIntrinsic(LaneBuilder &lanes, StringRef name, Type type,
                    ValueRange operands) {
  return lanes.builder
      .create<LLVM::CallIntrinsicOp>(lanes.loc, type, name, operands)
      .getResult(0);
}

} // namespace

func::FuncOp QuantizedMicroKernel::create(OpBuilder &builder, Operation *where,
                                          StringRef name, bool wantsFetches) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(where);
  fetches = wantsFetches;
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types(Arguments, pointer);
  function = builder.create<func::FuncOp>(where->getLoc(), name,
                                          builder.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  function.setArgAttr(Result, "llvm.noalias", builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  fill(builder);
  return function;
}

void QuantizedMicroKernel::fill(OpBuilder &b) {
  // A builder of its own: values of other functions can't be used here.
  LaneBuilder lanes(b, function.getLoc());
  auto type = VectorType::get({blocking.lanes}, b.getF32Type());
  Value zero = lanes.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Value> zeros(blocking.rows * blocking.vectors, zero);
  SmallVector<Value> results =
      lanes.loop(lanes.index(0), lanes.index(context.blocks()), 1, zeros,
                 [&](Value block, ValueRange carried) {
                   return addBlock(lanes, block, carried);
                 });
  for (auto [i, value] : llvm::enumerate(results)) {
    int64_t row = i / blocking.vectors, vector = i % blocking.vectors;
    int64_t at = row * panelBytes + vector * blocking.lanes * 4;
    b.create<LLVM::StoreOp>(
        lanes.loc, value,
        bytesBehind(lanes, function.getArgument(Result), lanes.index(at)), 4);
  }
  b.create<func::ReturnOp>(lanes.loc);
}

Value QuantizedMicroKernel::load(LaneBuilder &lanes, Argument from, Value bytes,
                                 Type type) {
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, type, bytesBehind(lanes, function.getArgument(from), bytes),
      /*alignment=*/1);
}

/// A block of depths: the steps as integers, then both scales.
SmallVector<Value> QuantizedMicroKernel::addBlock(LaneBuilder &lanes,
                                                  Value block,
                                                  ValueRange results) {
  int64_t perBlock = blocking.depth / context.weight.layout.stepDepths();
  int64_t steps = context.weight.layout.steps(context.weight.depths);
  Value first = lanes.mulIndex(block, lanes.index(perBlock));
  Value end = lanes.addIndex(first, lanes.index(perBlock));
  if (steps % perBlock != 0)
    end = lanes.minIndex(end, lanes.index(steps));
  SmallVector<Value> sums = lanes.loop(first, end, 1, startSums(lanes, block),
                                       [&](Value step, ValueRange carried) {
                                         return addStep(lanes, step, carried);
                                       });
  return scaleSums(lanes, block, sums, results);
}

/// Sums of a row start where they would be if all integers were the center.
SmallVector<Value> QuantizedMicroKernel::startSums(LaneBuilder &lanes,
                                                   Value block) {
  Type i32 = lanes.builder.getI32Type();
  auto type = VectorType::get({blocking.lanes}, i32);
  SmallVector<Value> sums;
  for (int64_t row = 0; row < blocking.rows; ++row)
    for (int64_t digit = 0; digit < blocking.digits.count; ++digit) {
      Value at = lanes.addIndex(
          lanes.index((row * blocking.digits.count + digit) * context.blocks()),
          block);
      Value start = splat(lanes, type, 0);
      if (context.weight.layout.center)
        start = lanes.make<vector::BroadcastOp>(
            type, load(lanes, Starts, lanes.mulIndex(at, lanes.index(4)), i32));
      sums.append(blocking.vectors, start);
    }
  return sums;
}

void QuantizedMicroKernel::fetch(LaneBuilder &lanes, Value line) {
  for (int64_t at = 0; at < panelBytes; at += lineBytes)
    lanes.builder.create<LLVM::Prefetch>(
        lanes.loc,
        bytesBehind(lanes, function.getArgument(Packed),
                    lanes.addIndex(line, lanes.index(bytesAhead + at))),
        /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

/// The bytes of words as an instruction takes them: as they are, or the even
/// ones and the odd ones of 16 bits.
QuantizedMicroKernel::Factor QuantizedMicroKernel::widen(LaneBuilder &lanes,
                                                         Value bytes) {
  if (blocking.dots)
    return {bytes};
  auto type = VectorType::get({2 * blocking.lanes}, lanes.builder.getI16Type());
  Value both = lanes.make<LLVM::BitcastOp>(Type(type), bytes);
  return {lanes.make<arith::AndIOp>(both, splat(lanes, type, 255)),
          lanes.make<arith::ShRUIOp>(both, splat(lanes, type, 8))};
}

Value QuantizedMicroKernel::multiply(LaneBuilder &lanes, Value sum,
                                     const Factor &weight, Value at) {
  bool wide = blocking.lanes == 16;
  Type type = sum.getType(), i32 = lanes.builder.getI32Type();
  auto pairs =
      VectorType::get({2 * blocking.lanes}, lanes.builder.getI16Type());
  for (auto [i, part] : llvm::enumerate(weight)) {
    Value from = lanes.addIndex(at, lanes.index(i * 4));
    Value digits =
        lanes.make<vector::BroadcastOp>(type, load(lanes, Digits, from, i32));
    if (blocking.dots) {
      sum = callIntrinsic(lanes,
                          wide ? "llvm.x86.avx512.vpdpbusd.512"
                               : "llvm.x86.avx512.vpdpbusd.256",
                          type, {sum, part, digits});
      continue;
    }
    Value words = lanes.make<LLVM::BitcastOp>(Type(pairs), digits);
    Value products = callIntrinsic(
        lanes, wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd",
        type, {part, words});
    sum = lanes.make<arith::AddIOp>(sum, products);
  }
  return sum;
}

SmallVector<Value> QuantizedMicroKernel::addStep(LaneBuilder &lanes, Value step,
                                                 ValueRange sums) {
  auto type = VectorType::get({blocking.lanes}, lanes.builder.getI32Type());
  const ir::QuantizedWeight &layout = context.weight.layout;
  Value line = lanes.mulIndex(step, lanes.index(panelBytes));
  if (fetches)
    fetch(lanes, line);
  // Words of four depths: one of a byte, two of its nibbles.
  int64_t words = layout.stepDepths() / 4;
  SmallVector<SmallVector<Factor>> factors(words);
  for (int64_t j = 0; j < blocking.vectors; ++j) {
    Value bytes =
        load(lanes, Packed,
             lanes.addIndex(line, lanes.index(j * blocking.lanes * 4)), type);
    if (words == 1) {
      factors[0].push_back(widen(lanes, bytes));
      continue;
    }
    Value low = splat(lanes, type, 0x0f0f0f0f);
    Value high = lanes.make<arith::ShRUIOp>(bytes, splat(lanes, type, 4));
    factors[0].push_back(widen(lanes, lanes.make<arith::AndIOp>(bytes, low)));
    factors[1].push_back(widen(lanes, lanes.make<arith::AndIOp>(high, low)));
  }
  SmallVector<Value> next(sums);
  int64_t wordBytes = 4 * blocking.digits.bytes;
  Value depth = lanes.mulIndex(step, lanes.index(words * wordBytes));
  for (int64_t word = 0; word < words; ++word)
    for (int64_t i = 0; i < blocking.rows * blocking.digits.count; ++i) {
      // Rows and their digits follow each other.
      Value at = lanes.addIndex(
          depth, lanes.index(i * context.digitBytes() + word * wordBytes));
      for (int64_t j = 0; j < blocking.vectors; ++j) {
        Value &sum = next[i * blocking.vectors + j];
        sum = multiply(lanes, sum, factors[word][j], at);
      }
    }
  return next;
}

/// The results after a block's sums.
SmallVector<Value> QuantizedMicroKernel::scaleSums(LaneBuilder &lanes,
                                                   Value block, ValueRange sums,
                                                   ValueRange results) {
  OpBuilder &b = lanes.builder;
  Type f32 = b.getF32Type();
  auto type = VectorType::get({blocking.lanes}, f32);
  const QuantizedOperand &weight = context.weight;
  int64_t stride = ir::QuantizedWeight::panels(weight.columns) * panelBytes;
  Value group =
      lanes.divIndex(lanes.mulIndex(block, lanes.index(blocking.depth)),
                     lanes.index(weight.layout.group));
  auto parameter = [&](Argument from, int64_t j) {
    Value at = lanes.addIndex(lanes.mulIndex(group, lanes.index(stride)),
                              lanes.index(j * blocking.lanes * 4));
    return load(lanes, from, at, type);
  };
  auto ofRow = [&](Argument from, int64_t row) -> Value {
    Value at = lanes.addIndex(lanes.index(row * context.blocks()), block);
    return lanes.make<vector::BroadcastOp>(
        type, load(lanes, from, lanes.mulIndex(at, lanes.index(4)), f32));
  };
  auto base = lanes.constant(DenseElementsAttr::get(
      type, static_cast<float>(int64_t(1) << blocking.digits.bits)));
  SmallVector<Value> next(results);
  for (int64_t j = 0; j < blocking.vectors; ++j) {
    Value scale = parameter(Scale, j);
    Value offset = weight.offset ? parameter(Offset, j) : Value();
    for (int64_t row = 0; row < blocking.rows; ++row) {
      int64_t count = blocking.digits.count;
      Value total;
      for (int64_t digit = count; digit-- > 0;) {
        Value part = sums[(row * count + digit) * blocking.vectors + j];
        part = lanes.make<arith::SIToFPOp>(type, part);
        total = total ? b.create<vector::FMAOp>(lanes.loc, total, base, part)
                            .getResult()
                      : part;
      }
      Value &result = next[row * blocking.vectors + j];
      total = lanes.make<arith::MulFOp>(total, scale);
      result =
          b.create<vector::FMAOp>(lanes.loc, total, ofRow(Scales, row), result);
      if (offset)
        result = b.create<vector::FMAOp>(lanes.loc, offset, ofRow(Sums, row),
                                         result);
    }
  }
  return next;
}

} // namespace codegen
} // namespace anabranch
