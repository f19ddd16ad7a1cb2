//===- FftEmitter.cpp - the loops around a tile's transforms --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fft/FftEmitter.h"

#include "anabranch/KernelABI.h"
#include "kernels/control/VectorLoop.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr int64_t jobBytes = 2 * ANABRANCH_BUFFER_ALIGNMENT;
static_assert(sizeof(anabranch_fft_job) <= jobBytes);
static constexpr char variable[] = "anabranch_fft";

FftEmitter::FftEmitter(FftRows &rows, const Destination &destination)
    : rows(rows), lanes(rows.lanes), destination(destination) {
  int64_t bytes = elementBytes(rows.element);
  vectorWidth = rows.function.target.lanes(8 * bytes);
  auto planeBytes = [&](Value pitch, Value count) {
    Value lines = rows.isAcross ? count : rows.capacity;
    return lanes.mulIndex(lanes.mulIndex(pitch, lines), lanes.index(bytes));
  };
  auto pitch = [&](Value count) {
    return rows.isAcross ? rows.capacity : rows.roundedUp(count);
  };
  fromPitch = pitch(rows.fromCount);
  toPitch = pitch(rows.toCount);
  fromBytes = planeBytes(fromPitch, rows.fromCount);
  toBytes = planeBytes(toPitch, rows.toCount);
}

Value FftEmitter::scratchBytes() {
  Value planes =
      lanes.mulIndex(lanes.index(2), lanes.addIndex(fromBytes, toBytes));
  // ANABRANCH_FFT_WORK_BYTES
  constexpr int64_t fixed = ANABRANCH_FFT_WORK_BYTES(0);
  constexpr int64_t each = ANABRANCH_FFT_WORK_BYTES(1) - fixed;
  Value work = lanes.addIndex(lanes.index(fixed),
                              lanes.mulIndex(rows.length, lanes.index(each)));
  return lanes.addIndex(lanes.index(jobBytes), lanes.addIndex(planes, work));
}

Buffer FftEmitter::plane(Value pointer, Value pitch) {
  return {pointer, rows.element, {pitch, lanes.index(1)}};
}

FftEmitter::Scratch FftEmitter::split(Value memory) {
  Scratch scratch;
  scratch.job = memory;
  Value next = addBytes(lanes, memory, lanes.index(jobBytes));
  for (Buffer &from : scratch.from) {
    from = plane(next, fromPitch);
    next = addBytes(lanes, next, fromBytes);
  }
  for (Buffer &to : scratch.to) {
    to = plane(next, toPitch);
    next = addBytes(lanes, next, toBytes);
  }
  scratch.work = next;
  return scratch;
}

void FftEmitter::forElements(const FftRows::Tile &tile, Value count,
                             Body body) {
  Value zero = lanes.index(0);
  lanes.loop(zero, tile.count, 1, [&](Value at) {
    Value outer = lanes.addIndex(tile.first, at);
    if (!rows.isAcross) {
      VectorLoop vectors{zero, count, vectorWidth};
      vectors.emit(lanes, {}, [&](Lanes k, ValueRange) -> SmallVector<Value> {
        body(outer, k, k, {Lanes::uniform(at), k});
        return {};
      });
      return;
    }
    Lanes first = Lanes::uniform(lanes.mulIndex(at, tile.width));
    lanes.loop(zero, count, 1, [&](Value k) {
      VectorLoop vectors{zero, tile.width, vectorWidth};
      vectors.emit(lanes, {}, [&](Lanes i, ValueRange) -> SmallVector<Value> {
        Lanes inner = lanes.add(Lanes::uniform(tile.firstInner), i);
        body(outer, Lanes::uniform(k), inner,
             {Lanes::uniform(k), lanes.add(first, i)});
        return {};
      });
    });
  });
}

void FftEmitter::emitTile(Evaluator &evaluator, Value memory, Value number) {
  FftRows::Tile tile = rows.tileAt(number);
  Scratch scratch = split(memory);
  SmallVector<Value> operands = rows.operands();
  forElements(tile, rows.fromCount,
              [&](Value outer, Lanes k, Lanes inner, ArrayRef<Lanes> inPlane) {
                SmallVector<Lanes> index = rows.index(outer, k, inner);
                for (auto [part, operand] : llvm::enumerate(operands))
                  store(lanes, scratch.from[part], inPlane,
                        evaluator.evaluate(operand, index));
              });
  callRuntime(tile, scratch);
  Buffer result = destinationBuffer(rows.function, destination);
  bool isReal = rows.op.getToReal();
  forElements(tile, rows.toCount,
              [&](Value outer, Lanes k, Lanes inner, ArrayRef<Lanes> inPlane) {
                for (unsigned part = 0; part < rows.resultParts(); ++part)
                  store(lanes, result,
                        rows.index(outer, k, inner,
                                   isReal ? std::optional<int64_t>() : part),
                        load(lanes, scratch.to[part], inPlane));
              });
}

/// The address of the runtime's function. The kernels of a library share the
/// variable, which the runtime sets when it loads the library.
Value FftEmitter::runtimeFunction() {
  OpBuilder &b = lanes.builder;
  auto module = rows.function.source->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(variable)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    b.create<LLVM::GlobalOp>(lanes.loc, b.getI64Type(), /*isConstant=*/false,
                             LLVM::Linkage::Weak, variable,
                             b.getI64IntegerAttr(0));
  }
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value address = b.create<LLVM::AddressOfOp>(lanes.loc, pointer, variable);
  return b.create<LLVM::LoadOp>(lanes.loc, pointer, address);
}

void FftEmitter::callRuntime(const FftRows::Tile &tile,
                             const Scratch &scratch) {
  OpBuilder &b = lanes.builder;
  auto set = [&](size_t offset, Value value) {
    if (value.getType().isIndex())
      value = lanes.toI64(value);
    b.create<LLVM::StoreOp>(
        lanes.loc, value,
        addBytes(lanes, scratch.job, lanes.index(int64_t(offset))));
  };
  ir::FftOp op = rows.op;
  int64_t kind = op.getToReal()      ? ANABRANCH_FFT_HALF_TO_REAL
                 : op.getImaginary() ? ANABRANCH_FFT_COMPLEX
                                     : ANABRANCH_FFT_REAL_TO_HALF;
  using Job = anabranch_fft_job;
  set(offsetof(Job, kind), lanes.index(kind));
  set(offsetof(Job, norm), lanes.index(int64_t(op.getNorm())));
  set(offsetof(Job, inverse), lanes.index(op.getInverse()));
  set(offsetof(Job, element_bytes), lanes.index(elementBytes(rows.element)));
  set(offsetof(Job, length), rows.length);
  set(offsetof(Job, rows),
      rows.roundedUp(lanes.mulIndex(tile.count, tile.width)));
  set(offsetof(Job, across), lanes.index(rows.isAcross));
  set(offsetof(Job, from_pitch), fromPitch);
  set(offsetof(Job, to_pitch), toPitch);
  for (size_t part = 0; part < 2; ++part) {
    set(offsetof(Job, from) + part * sizeof(void *),
        scratch.from[part].pointer);
    set(offsetof(Job, to) + part * sizeof(void *), scratch.to[part].pointer);
  }
  set(offsetof(Job, work), scratch.work);
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {scratch.job.getType()});
  b.create<LLVM::CallOp>(lanes.loc, type,
                         ValueRange{runtimeFunction(), scratch.job});
}

} // namespace kernels
} // namespace anabranch
