//===- SizeTable.cpp - sizes that are known at run time only --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/SizeTable.h"

#include "anabranch/KernelABI.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

/// The argument and the dimension that a size is read from; the dimension is -1
/// for a scalar.
static std::pair<Value, int64_t> argumentDimOf(Value size) {
  if (auto dim = size.getDefiningOp<tensor::DimOp>())
    return {dim.getSource(), *dim.getConstantIndex()};
  return {size, -1};
}

SizeTable::SizeTable(func::FuncOp main)
    : module(main->getParentOfType<ModuleOp>()), builder(main.getContext()) {
  llvm::MapVector<Dim, Value> same;
  for (auto expect : main.getOps<ir::ExpectOp>())
    if (expect.getSame())
      same[argumentDimOf(expect.getSize())] = expect.getSame();
  for (BlockArgument argument : main.getArguments()) {
    if (argument.getType().isIndex() && !same.contains({argument, -1}))
      known[argument] = newSource();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim) {
      if (!type.isDynamicDim(dim) || same.contains({argument, dim}))
        continue;
      dims[{argument, dim}] = newSource();
      sources.insert({argument, dim});
    }
  }
  for (auto [source, value] : same) {
    auto [argument, dim] = source;
    Attribute size = get(value);
    if (!size || (dim < 0 && !isa<ir::SlotAttr>(size))) {
      size = newSource();
      sources.insert(source);
    }
    (dim < 0 ? known[argument] : dims[source]) = size;
  }
}

SizeTable::SizeTable(ModuleOp module, int64_t slots)
    : module(module), sizes(module.lookupSymbol<func::FuncOp>(functionName)),
      builder(module.getContext()), slots(slots) {
  if (sizes)
    builder.setInsertionPoint(sizes.getBody().front().getTerminator());
}

Attribute SizeTable::newSource() {
  return ir::SlotAttr::get(builder.getContext(), slots++);
}

Attribute SizeTable::literal(int64_t value) {
  return builder.getI64IntegerAttr(value);
}

Attribute SizeTable::dimOf(BlockArgument argument, int64_t dim) {
  auto type = cast<RankedTensorType>(argument.getType());
  return type.isDynamicDim(dim) ? dims.lookup({argument, dim})
                                : literal(type.getDimSize(dim));
}

Attribute SizeTable::get(OpFoldResult size) {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return literal(*constant);
  Value value = cast<Value>(size);
  if (Attribute slot = known.lookup(value))
    return slot;
  if (auto dim = value.getDefiningOp<tensor::DimOp>()) {
    auto argument = dyn_cast<BlockArgument>(dim.getSource());
    if (argument && dim.getConstantIndex())
      return dimOf(argument, *dim.getConstantIndex());
  }
  Value computed = cloneArithmetic(value);
  if (!computed)
    return {};
  return known[value] = store(computed);
}

//===----------------------------------------------------------------------===//
// The sizes function
//===----------------------------------------------------------------------===//

void SizeTable::openFunction() {
  if (sizes)
    return;
  MLIRContext *context = builder.getContext();
  builder.setInsertionPointToEnd(module.getBody());
  Location loc = NameLoc::get(builder.getStringAttr(functionName));
  auto type = builder.getFunctionType(LLVM::LLVMPointerType::get(context), {});
  sizes = builder.create<func::FuncOp>(loc, functionName, type);
  Block *entry = sizes.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  builder.setInsertionPoint(builder.create<func::ReturnOp>(loc));
}

static Value slotAddress(OpBuilder &builder, func::FuncOp sizes, int64_t slot) {
  Location loc = sizes.getLoc();
  return builder.create<LLVM::GEPOp>(
      loc, LLVM::LLVMPointerType::get(builder.getContext()),
      builder.getI64Type(), sizes.getArgument(0),
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(slot)});
}

Value SizeTable::load(Attribute size) {
  openFunction();
  Value &value = loaded[size];
  if (value)
    return value;
  Location loc = sizes.getLoc();
  if (auto constant = dyn_cast<IntegerAttr>(size)) {
    value = builder.create<arith::ConstantIndexOp>(loc, constant.getInt());
    return value;
  }
  int64_t slot = cast<ir::SlotAttr>(size).getIndex();
  Value word = builder.create<LLVM::LoadOp>(loc, builder.getI64Type(),
                                            slotAddress(builder, sizes, slot));
  value = builder.create<arith::IndexCastOp>(loc, builder.getIndexType(), word);
  return value;
}

Attribute SizeTable::store(Value computed) {
  Location loc = sizes.getLoc();
  Type i64 = builder.getI64Type();
  // The slot of a float holds its bits.
  Value word =
      computed.getType().isF64()
          ? builder.create<arith::BitcastOp>(loc, i64, computed).getResult()
          : builder.create<arith::IndexCastOp>(loc, i64, computed).getResult();
  builder.create<LLVM::StoreOp>(loc, word, slotAddress(builder, sizes, slots));
  Attribute slot = ir::SlotAttr::get(builder.getContext(), slots++);
  loaded[slot] = computed;
  return slot;
}

Value SizeTable::cloneArithmetic(Value value) {
  openFunction();
  if (Value done = inside.lookup(value))
    return done;
  Operation *op = value.getDefiningOp();
  bool isDim = isa_and_nonnull<tensor::DimOp>(op);
  if (!op || isDim || known.count(value)) {
    if (!op && !known.count(value))
      return {};
    Attribute size = get(value);
    return size ? inside[value] = load(size) : Value();
  }
  if (!isa<arith::ArithDialect>(op->getDialect())) {
    op->emitOpError("makes a size from computed data");
    return {};
  }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value mapped = cloneArithmetic(operand);
    if (!mapped)
      return {};
    mapping.map(operand, mapped);
  }
  Operation *clone = builder.clone(*op, mapping);
  for (auto [old, fresh] : llvm::zip(op->getResults(), clone->getResults()))
    inside[old] = fresh;
  return inside.lookup(value);
}

//===----------------------------------------------------------------------===//
// Arithmetic on sizes
//===----------------------------------------------------------------------===//

static int64_t fold(SizeOperation operation, int64_t a, int64_t b) {
  switch (operation) {
  case SizeOperation::Multiply:
    return a * b;
  case SizeOperation::Add:
    return a + b;
  case SizeOperation::Max:
    return std::max(a, b);
  case SizeOperation::Align:
    return llvm::alignTo(a, b);
  }
  llvm_unreachable("no other operation on sizes");
}

static Value emit(OpBuilder &builder, Location loc, SizeOperation operation,
                  Value a, Value b) {
  switch (operation) {
  case SizeOperation::Multiply:
    return builder.create<arith::MulIOp>(loc, a, b);
  case SizeOperation::Add:
    return builder.create<arith::AddIOp>(loc, a, b);
  case SizeOperation::Max:
    return builder.create<arith::MaxSIOp>(loc, a, b);
  case SizeOperation::Align:
    return builder.create<arith::MulIOp>(
        loc, builder.create<arith::CeilDivUIOp>(loc, a, b), b);
  }
  llvm_unreachable("no other operation on sizes");
}

Attribute SizeTable::combine(SizeOperation operation, Attribute a,
                             Attribute b) {
  auto x = dyn_cast<IntegerAttr>(a), y = dyn_cast<IntegerAttr>(b);
  if (x && y)
    return literal(fold(operation, x.getInt(), y.getInt()));
  if (operation == SizeOperation::Multiply && x && x.getInt() == 1)
    return b;
  if (operation == SizeOperation::Multiply && y && y.getInt() == 1)
    return a;
  if (operation == SizeOperation::Add &&
      ((x && x.getInt() == 0) || (y && y.getInt() == 0)))
    return x ? b : a;
  if (operation == SizeOperation::Max && a == b)
    return a;
  Attribute &known = combined[Key(operation, a, b)];
  if (!known) {
    Value left = load(a), right = load(b);
    known = store(emit(builder, sizes.getLoc(), operation, left, right));
  }
  return known;
}

Attribute SizeTable::multiply(Attribute a, Attribute b) {
  return combine(SizeOperation::Multiply, a, b);
}
Attribute SizeTable::add(Attribute a, Attribute b) {
  return combine(SizeOperation::Add, a, b);
}
Attribute SizeTable::max(Attribute a, Attribute b) {
  return combine(SizeOperation::Max, a, b);
}
Attribute SizeTable::align(Attribute a) {
  return combine(SizeOperation::Align, a, literal(ANABRANCH_BUFFER_ALIGNMENT));
}

} // namespace schedule
} // namespace anabranch
