//===- Memory.cpp - lanes from and to memory ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Memory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t elementBytes(Type element) {
  if (element.isIndex())
    return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

std::optional<int64_t> tensorBytes(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.hasStaticShape())
    return std::nullopt;
  return type.getNumElements() * elementBytes(type.getElementType());
}

Value addBytes(LaneBuilder &lanes, Value pointer, Value bytes) {
  OpBuilder &b = lanes.builder;
  return b.create<LLVM::GEPOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(),
      pointer, ArrayRef<LLVM::GEPArg>{lanes.toI64(bytes)});
}

/// Whether memory has integers of an element's bits: LLVM has no floats of
/// eight bits, and must never select an instruction on bf16 itself.
static bool isReadAsBits(Type element) {
  return element.isBF16() ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8);
}

Type memoryType(Type element) {
  MLIRContext *context = element.getContext();
  if (element.isInteger(1))
    return IntegerType::get(context, 8);
  if (isReadAsBits(element))
    return IntegerType::get(context, element.getIntOrFloatBitWidth());
  if (element.isIndex())
    return IntegerType::get(context, 64);
  return element;
}

static Type sameShape(Type shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape))
    return vector.clone(element);
  return element;
}

/// A constant of the type's shape.
static Value splat(LaneBuilder &lanes, Type type, int64_t value) {
  Type element = getElementTypeOrSelf(type);
  auto attr = lanes.builder.getIntegerAttr(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    return lanes.constant(DenseElementsAttr::get(vector, attr));
  return lanes.constant(cast<TypedAttr>(attr));
}

Value extendBF16(LaneBuilder &lanes, Value value) {
  Type f32 = sameShape(value.getType(), lanes.builder.getF32Type());
  return lanes.make<arith::ExtFOp>(f32, value);
}

Value truncateToBF16(LaneBuilder &lanes, Value value) {
  Type bf16 = sameShape(value.getType(), lanes.builder.getBF16Type());
  return lanes.make<arith::TruncFOp>(bf16, value);
}

Value extendF16(LaneBuilder &lanes, Value value) {
  Type f32 = sameShape(value.getType(), lanes.builder.getF32Type());
  Value wide = lanes.make<arith::ExtFOp>(f32, value);
  if (!wide.getDefiningOp<arith::ExtFOp>())
    return wide;
  auto fence = lanes.builder.create<LLVM::CallIntrinsicOp>(
      lanes.loc, f32, StringRef("llvm.arithmetic.fence"), ValueRange{wide});
  return fence.getResult(0);
}

Value fromMemory(LaneBuilder &lanes, Value loaded, Type element) {
  Type type = sameShape(loaded.getType(), element);
  if (element.isInteger(1))
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, loaded,
                                     splat(lanes, loaded.getType(), 0));
  if (isReadAsBits(element))
    return lanes.make<arith::BitcastOp>(type, loaded);
  if (element.isIndex())
    return lanes.make<arith::IndexCastOp>(type, loaded);
  return loaded;
}

static Value toMemory(LaneBuilder &lanes, Value value, Type element) {
  Type type = sameShape(value.getType(), memoryType(element));
  if (element.isInteger(1))
    return lanes.make<arith::ExtUIOp>(type, value);
  if (isReadAsBits(element))
    return castBits(lanes, value, memoryType(element));
  if (element.isIndex())
    return lanes.make<arith::IndexCastOp>(type, value);
  return value;
}

static Lanes offsetOf(LaneBuilder &lanes, const Buffer &buffer,
                      ArrayRef<Lanes> index) {
  Lanes offset = lanes.indexLanes(0);
  for (auto [position, stride] : llvm::zip(index, buffer.strides))
    offset = lanes.add(offset, lanes.mul(position, Lanes::uniform(stride)));
  return offset;
}

static Value address(LaneBuilder &lanes, const Buffer &buffer, Value offset) {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  return lanes.make<LLVM::GEPOp>(pointer, memoryType(buffer.element),
                                 buffer.pointer,
                                 ArrayRef<LLVM::GEPArg>{lanes.toI64(offset)});
}

static Value addresses(LaneBuilder &lanes, const Buffer &buffer, Lanes offset) {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  Value integers = lanes.make<arith::IndexCastOp>(
      lanes.vectorType(lanes.builder.getI64Type()), lanes.vector(offset));
  return lanes.make<LLVM::GEPOp>(LLVM::getVectorType(pointer, lanes.width),
                                 memoryType(buffer.element), buffer.pointer,
                                 ArrayRef<LLVM::GEPArg>{integers});
}

static Value activeMask(LaneBuilder &lanes) {
  if (lanes.mask)
    return lanes.mask;
  auto type = VectorType::get({lanes.width}, lanes.builder.getI1Type());
  return lanes.constant(DenseElementsAttr::get(type, true));
}

static Value zeros(LaneBuilder &lanes, Type element) {
  auto type = VectorType::get({lanes.width}, element);
  return lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(type)));
}

/// Loads consecutive elements, from lane 0's address on.
static Value loadVector(LaneBuilder &lanes, Value pointer, Type element) {
  OpBuilder &b = lanes.builder;
  auto type = VectorType::get({lanes.width}, element);
  unsigned alignment = elementBytes(element);
  if (!lanes.mask)
    return b.create<LLVM::LoadOp>(lanes.loc, type, pointer, alignment);
  return b.create<LLVM::MaskedLoadOp>(lanes.loc, type, pointer, lanes.mask,
                                      ValueRange{zeros(lanes, element)},
                                      b.getI32IntegerAttr(alignment));
}

/// Loads elements at equal distances, rising or falling. It loads whole vectors
/// and takes from each the lanes that it has. The last vector ends at the last
/// lane, so that nothing after it is read.
static Value loadStrided(LaneBuilder &lanes, const Buffer &buffer,
                         Lanes offset) {
  int64_t width = lanes.width, step = std::abs(offset.step);
  int64_t last = (width - 1) * step;
  Value first = offset.value;
  if (offset.step < 0)
    first = lanes.subIndex(first, lanes.index(last));
  Value merged;
  for (int64_t piece = 0; piece < step; ++piece) {
    int64_t start = std::min(piece * width, last - (width - 1));
    Value at = lanes.addIndex(first, lanes.index(start));
    Value loaded = loadVector(lanes, address(lanes, buffer, at),
                              memoryType(buffer.element));
    SmallVector<int64_t> order;
    for (int64_t lane = 0; lane < width; ++lane) {
      int64_t position = (offset.step < 0 ? width - 1 - lane : lane) * step;
      bool here = position / width == piece;
      order.push_back(here ? width + position - start : lane);
    }
    merged =
        lanes.make<vector::ShuffleOp>(merged ? merged : loaded, loaded, order);
  }
  return merged;
}

/// The address of a lane, at a constant distance from that of lane 0.
static Value laneAddress(LaneBuilder &lanes, const Buffer &buffer, Lanes offset,
                         int64_t lane) {
  int64_t bytes = lane * offset.step * elementBytes(buffer.element);
  return addBytes(lanes, address(lanes, buffer, offset.value),
                  lanes.index(bytes));
}

/// If no instruction takes an address for each lane, LLVM would keep the
/// addresses of a gather in vectors and take each from there.
static Value loadLaneByLane(LaneBuilder &lanes, const Buffer &buffer,
                            Lanes offset) {
  OpBuilder &b = lanes.builder;
  Type element = memoryType(buffer.element);
  SmallVector<Value> loaded;
  for (int64_t lane = 0; lane < lanes.width; ++lane)
    loaded.push_back(b.create<LLVM::LoadOp>(
        lanes.loc, element, laneAddress(lanes, buffer, offset, lane),
        elementBytes(element)));
  return lanes.make<vector::FromElementsOp>(
      VectorType::get({lanes.width}, element), loaded);
}

/// Scatters of AVX-512 are no faster. On an AMD EPYC, one thread convolves 96
/// channels of 56 x 56 points by 3 x 3 in 152 us, and in 255 us with scatters.
/// By LLVM's model of Sapphire Rapids, a block of 48 channels takes 6 % more
/// cycles than with scatters, a window of 5 x 5 takes 6 % less.
static void storeLaneByLane(LaneBuilder &lanes, const Buffer &buffer,
                            Lanes offset, Value stored) {
  for (int64_t lane = 0; lane < lanes.width; ++lane)
    lanes.builder.create<LLVM::StoreOp>(
        lanes.loc, lanes.make<vector::ExtractOp>(stored, lane),
        laneAddress(lanes, buffer, offset, lane), elementBytes(buffer.element));
}

Value loadRaw(LaneBuilder &lanes, const Buffer &buffer, ArrayRef<Lanes> index) {
  Lanes offset = offsetOf(lanes, buffer, index);
  return loadVector(lanes, address(lanes, buffer, offset.value),
                    memoryType(buffer.element));
}

Lanes load(LaneBuilder &lanes, const Buffer &buffer, ArrayRef<Lanes> index) {
  OpBuilder &b = lanes.builder;
  Lanes offset = offsetOf(lanes, buffer, index);
  Type element = memoryType(buffer.element);
  unsigned alignment = elementBytes(element);
  Value loaded;
  if (offset.isUniform() || lanes.width == 1) {
    // If no lane is active, the address may lie outside of the buffer.
    if (!lanes.maybeEmpty || lanes.width == 1) {
      loaded = b.create<LLVM::LoadOp>(
          lanes.loc, element, address(lanes, buffer, offset.value), alignment);
      return Lanes::uniform(fromMemory(lanes, loaded, buffer.element));
    }
    loaded = b.create<LLVM::masked_gather>(
        lanes.loc, VectorType::get({lanes.width}, element),
        addresses(lanes, buffer, offset), lanes.mask,
        ValueRange{zeros(lanes, element)}, b.getI32IntegerAttr(alignment));
  } else if (offset.isLinear() && offset.step == 1) {
    loaded = loadVector(lanes, address(lanes, buffer, offset.value), element);
  } else if (offset.isLinear() && std::abs(offset.step) <= widestStep &&
             !lanes.mask) {
    loaded = loadStrided(lanes, buffer, offset);
  } else if (offset.isLinear() && !lanes.mask &&
             !lanes.isa.hasGather(8 * alignment)) {
    loaded = loadLaneByLane(lanes, buffer, offset);
  } else {
    loaded = b.create<LLVM::masked_gather>(
        lanes.loc, VectorType::get({lanes.width}, element),
        addresses(lanes, buffer, offset), activeMask(lanes),
        ValueRange{zeros(lanes, element)}, b.getI32IntegerAttr(alignment));
  }
  return Lanes::varying(fromMemory(lanes, loaded, buffer.element));
}

void prefetch(LaneBuilder &lanes, const Buffer &buffer, ArrayRef<Lanes> index) {
  Value pointer = address(lanes, buffer, offsetOf(lanes, buffer, index).value);
  lanes.builder.create<LLVM::Prefetch>(lanes.loc, pointer, /*rw=*/0, /*hint=*/3,
                                       /*cache=*/1);
}

void keepOrder(LaneBuilder &lanes) {
  lanes.builder.create<LLVM::InlineAsmOp>(
      lanes.loc, TypeRange(), ValueRange(), /*asm_string=*/"",
      /*constraints=*/"~{memory}", /*has_side_effects=*/true,
      /*is_align_stack=*/false, /*asm_dialect=*/nullptr,
      /*operand_attrs=*/nullptr);
}

void store(LaneBuilder &lanes, const Buffer &buffer, ArrayRef<Lanes> index,
           Lanes value) {
  OpBuilder &b = lanes.builder;
  Lanes offset = offsetOf(lanes, buffer, index);
  unsigned alignment = elementBytes(buffer.element);
  if (lanes.width == 1) {
    Value stored = toMemory(lanes, value.value, buffer.element);
    b.create<LLVM::StoreOp>(lanes.loc, stored,
                            address(lanes, buffer, offset.value), alignment);
    return;
  }
  Value stored = toMemory(lanes, lanes.vector(value), buffer.element);
  if (!offset.isLinear() || offset.step != 1) {
    if (offset.isLinear() && !lanes.mask)
      storeLaneByLane(lanes, buffer, offset, stored);
    else
      b.create<LLVM::masked_scatter>(
          lanes.loc, stored, addresses(lanes, buffer, offset),
          activeMask(lanes), b.getI32IntegerAttr(alignment));
    return;
  }
  Value pointer = address(lanes, buffer, offset.value);
  if (lanes.mask)
    b.create<LLVM::MaskedStoreOp>(lanes.loc, stored, pointer, lanes.mask,
                                  b.getI32IntegerAttr(alignment));
  else
    b.create<LLVM::StoreOp>(lanes.loc, stored, pointer, alignment);
}

/// The elements of both vectors, one after the other.
static Value concatenate(LaneBuilder &lanes, Value a, Value b) {
  int64_t width = cast<VectorType>(a.getType()).getNumElements();
  return lanes.make<vector::ShuffleOp>(
      a, b, llvm::to_vector(llvm::seq<int64_t>(0, 2 * width)));
}

void storeInterleaved(LaneBuilder &lanes, ArrayRef<PendingStore> stores) {
  const Buffer &buffer = stores[0].buffer;
  int64_t count = stores.size(), width = lanes.width;
  Lanes first = offsetOf(lanes, buffer, stores[0].index);
  if (!first.isLinear() || first.step != count || count > widestStep) {
    for (const PendingStore &one : stores)
      store(lanes, one.buffer, one.index, one.value);
    return;
  }
  SmallVector<Value> vectors;
  for (const PendingStore &one : stores)
    vectors.push_back(toMemory(lanes, lanes.vector(one.value), buffer.element));
  vectors.resize(widestStep, vectors.back());
  Value low = concatenate(lanes, vectors[0], vectors[1]);
  Value high = concatenate(lanes, vectors[2], vectors[3]);
  for (int64_t part = 0; part < count; ++part) {
    SmallVector<int64_t> order;
    for (int64_t place = part * width; place < (part + 1) * width; ++place)
      order.push_back(place % count * width + place / count);
    Value merged = lanes.make<vector::ShuffleOp>(low, high, order);
    Value at = lanes.addIndex(first.value, lanes.index(part * width));
    lanes.builder.create<LLVM::StoreOp>(lanes.loc, merged,
                                        address(lanes, buffer, at),
                                        elementBytes(buffer.element));
  }
}

} // namespace kernels
} // namespace anabranch
