//===- BufferTable.cpp - the program's buffers ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/BufferTable.h"

#include "ir/ResultDims.h"
#include "ir/Sizes.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/OpKinds.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

BufferTable::BufferTable(func::FuncOp main, SizeTable &sizes,
                         const Placement &placement)
    : main(main), sizes(sizes), placement(placement),
      arith(main.getBody().front().getTerminator()) {
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (!constantName(main, i)) {
      int64_t number = inputNumbers.size();
      inputNumbers[i] = number;
    }
  int64_t outputs = 0;
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    outputNumbers.push_back(
        main.getResultAttr(i, "anabranch.writes") ? -1 : outputs++);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

ArrayAttr BufferTable::sizesAttr(DenseI64ArrayAttr strides) {
  return strides ? arith.getI64ArrayAttr(strides.asArrayRef()) : ArrayAttr();
}

ArrayAttr BufferTable::shapeOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto argument = dyn_cast<BlockArgument>(value);
  SmallVector<Attribute> shape;
  bool isRunSized = ir::isRunSized(value);
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (isRunSized && type.getDimSize(dim) == 0) {
      shape.push_back(sizes.literal(-1));
      continue;
    }
    Attribute size =
        argument ? sizes.dimOf(argument, dim)
                 : sizes.get(ir::sizeOf(arith, value.getLoc(), value, dim));
    failedSizes |= !size;
    shape.push_back(size ? size : sizes.literal(0));
  }
  return arith.getArrayAttr(shape);
}

/// The bytes from the first element to the last. With strides they include
/// holes.
Attribute BufferTable::bytesOf(StringRef dtype, ArrayAttr shape,
                               ArrayAttr strides) {
  if (llvm::is_contained(shape, sizes.literal(-1)))
    return sizes.literal(0); // the run decides
  if (strides) {
    Attribute one = sizes.literal(1), elements = one;
    for (auto [size, stride] : llvm::zip(shape, strides)) {
      Attribute steps = sizes.add(sizes.max(size, one), sizes.literal(-1));
      elements = sizes.add(elements, sizes.multiply(steps, stride));
    }
    return sizes.multiply(elements, sizes.literal(dtypeBytes(dtype)));
  }
  // Literals come first, so that they fold into one factor.
  Attribute bytes = sizes.literal(dtypeBytes(dtype));
  for (bool literal : {true, false})
    for (Attribute size : shape)
      if (isa<IntegerAttr>(size) == literal)
        bytes = sizes.multiply(bytes, size);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Memories
//===----------------------------------------------------------------------===//

BufferTable::Memory BufferTable::newMemory(StringRef kind,
                                           std::optional<int64_t> index,
                                           StringAttr name) {
  return {kind, memoryCount++, index, name, {}};
}

BufferTable::Memory &BufferTable::memoryOf(Value value) {
  value = lookThroughReshapes(value);
  auto found = memories.find(value);
  if (found != memories.end())
    return found->second;
  unsigned number = cast<BlockArgument>(value).getArgNumber();
  StringAttr name = constantName(main, number);
  Memory memory = name ? newMemory("constant", {}, name)
                       : newMemory("input", inputNumber(number));
  memory.strides = stridesOfArgument(main, number);
  return memories.try_emplace(value, memory).first->second;
}

BufferTable::Memory &BufferTable::memoryOfOutput(unsigned number) {
  auto found = outputMemories.find(number);
  if (found != outputMemories.end())
    return found->second;
  return outputMemories
      .try_emplace(number, newMemory("output", outputNumbers[number]))
      .first->second;
}

void BufferTable::place(Value result, StringRef otherwise) {
  const Place *place = placement.find(result);
  Memory memory = !place ? newMemory(otherwise)
                  : place->kind == Place::Input
                      ? memoryOf(main.getArgument(place->index))
                      : memoryOfOutput(place->index);
  memory.strides = place ? place->strides : DenseI64ArrayAttr();
  memories[result] = memory;
}

bool BufferTable::placeOver(Value result, Value input) {
  Memory memory = memoryOf(input);
  if (memory.kind != "arena")
    return false;
  memories[result] = memory;
  return true;
}

void BufferTable::placeInPlace(Value newValue, Value old) {
  Memory memory = memoryOf(old);
  memories[newValue] = memory;
}

void BufferTable::placeApart(Value newValue) {
  place(newValue, "arena");
  memories[newValue].strides = ir::stridesOfMemory(newValue);
}

Value BufferTable::ofNewValue(Value newValue) {
  Memory memory = memoryOf(newValue);
  return create(memory, newValue.getLoc(), dtypeOf(newValue), shapeOf(newValue),
                sizesAttr(memory.strides));
}

void BufferTable::readFrom(Value value, Value buffer) {
  auto op = buffer.getDefiningOp<ir::BufferOp>();
  readInstead[value] = {
      op.getKind(), static_cast<int64_t>(op.getMemory()), {}, {}, {}};
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value BufferTable::create(const Memory &memory, Location loc, StringRef dtype,
                          ArrayAttr shape, ArrayAttr strides) {
  OpBuilder b(declarations);
  StringAttr dtypeAttr = b.getStringAttr(dtype);
  Value &buffer = buffers[{memory.number, dtypeAttr, shape, strides}];
  if (buffer)
    return buffer;
  auto op = b.create<ir::BufferOp>(
      loc, ir::BufferType::get(b.getContext()), b.getStringAttr(memory.kind),
      b.getI64IntegerAttr(memory.number), dtypeAttr, shape, strides,
      bytesOf(dtype, shape, strides),
      memory.index ? b.getI64IntegerAttr(*memory.index) : IntegerAttr(),
      memory.name, IntegerAttr(), IntegerAttr(), Attribute());
  return buffer = op.getResult();
}

StringRef BufferTable::dtypeOf(Value value) {
  Value bytes = lookThroughReshapes(value);
  Type element = getElementTypeOrSelf(value.getType());
  if (element != getElementTypeOrSelf(bytes.getType()))
    return dtypeName(element);
  if (bytes.getDefiningOp<ir::AtenOp>())
    return dtypeOfCall(cast<OpResult>(bytes));
  if (auto argument = dyn_cast<BlockArgument>(bytes))
    if (auto type = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      "anabranch.dtype"))
      return type.getValue();
  return dtypeName(element);
}

Value BufferTable::ofInput(unsigned argument) {
  BlockArgument value = main.getArgument(argument);
  return create(memoryOf(value), value.getLoc(), dtypeOf(value), shapeOf(value),
                sizesAttr(stridesOfArgument(main, argument)));
}

Value BufferTable::of(Value value, StringRef dtype) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned number = argument.getArgNumber();
    if (dtype.empty() || dtype == dtypeOf(value))
      return ofInput(number);
    return create(memoryOf(value), value.getLoc(), dtype, shapeOf(value),
                  sizesAttr(stridesOfArgument(main, number)));
  }
  Value bytes = lookThroughReshapes(value);
  Memory memory = memoryOf(value);
  if (dtype.empty())
    dtype = dtypeOf(value);
  auto kept = readInstead.find(bytes);
  if (kept != readInstead.end() &&
      (bytes != value || dtype != dtypeOf(value) || memory.strides))
    memory = kept->second;
  return create(memory, value.getLoc(), dtype, shapeOf(value),
                sizesAttr(memory.strides));
}

Value BufferTable::ofOutput(unsigned number, Value value) {
  auto strides =
      main.getResultAttrOfType<DenseI64ArrayAttr>(number, "anabranch.strides");
  if (strides && llvm::is_contained(strides.asArrayRef(), ShapedType::kDynamic))
    strides = {}; // the caller makes the strided view of the contiguous tensor
  return create(memoryOfOutput(number), value.getLoc(),
                dtypeOfOutput(main, number), shapeOf(value),
                sizesAttr(strides));
}

Value BufferTable::copyOf(Value source, Location loc) {
  auto buffer = source.getDefiningOp<ir::BufferOp>();
  return create(newMemory("arena"), loc, buffer.getDtype(), buffer.getShape());
}

Value BufferTable::flag(Location loc) {
  return create(newMemory("arena"), loc, "bool", arith.getArrayAttr({}));
}

} // namespace schedule
} // namespace anabranch
