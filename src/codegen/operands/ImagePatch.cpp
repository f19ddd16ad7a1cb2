//===- ImagePatch.cpp - the part of an image that a tile reads ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/operands/ImagePatch.h"

#include "codegen/microkernel/FloatParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

Type ImagePatch::imageElement() const {
  return cast<RankedTensorType>(windows.image.getType()).getElementType();
}

/// An element of the copy is a part of a word.
int64_t ImagePatch::partBytes() const {
  return shape.elements() * gemm.memory.elementBytes() / gemm.blocking.kPack;
}

int64_t ImagePatch::scratchElements() const {
  return llvm::divideCeil(gemm.blocking.parts * partBytes(),
                          gemm.memory.elementBytes());
}

static Value movedBy(LaneBuilder &lanes, Type element, Value pointer,
                     Value elements) {
  return lanes.builder.create<LLVM::GEPOp>(
      lanes.loc, pointer.getType(), element, pointer,
      ArrayRef<LLVM::GEPArg>{lanes.toI64(elements)});
}

/// An address in the image, and one in the copy, so many elements further on.
Value ImagePatch::moved(Value pointer, Value elements) const {
  return movedBy(lanes, imageElement(), pointer, elements);
}

Value ImagePatch::movedInCopy(Value pointer, Value elements) const {
  unsigned bits = 8 * gemm.memory.elementBytes() / gemm.blocking.kPack;
  return movedBy(lanes, lanes.builder.getIntegerType(bits), pointer, elements);
}

//===----------------------------------------------------------------------===//
// Windows of the copy
//===----------------------------------------------------------------------===//

/// How many points of its phase a tap is behind the window's first.
Value ImagePatch::shift(const ImageWindows::Axis &axis, Value tap,
                        Value &phase) {
  Value distance = lanes.mulIndex(tap, lanes.index(axis.dilation));
  Value phases = lanes.index(axis.phases());
  phase = lanes.remIndex(distance, phases);
  return lanes.divIndex(distance, phases);
}

Value ImagePatch::at(Value patch, Value number, Value depth) {
  Value run = lanes.index(shape.run), perRow = lanes.index(right.taps);
  Value tap = lanes.divIndex(depth, run), channel = lanes.remIndex(depth, run);
  Value rowPhase, columnPhase;
  Value row = shift(down, lanes.divIndex(tap, perRow), rowPhase);
  Value column = shift(right, lanes.remIndex(tap, perRow), columnPhase);
  Value point = lanes.addIndex(lanes.addIndex(number, column),
                               lanes.mulIndex(row, lanes.index(shape.columns)));
  Value phase = lanes.addIndex(
      lanes.mulIndex(rowPhase, lanes.index(shape.columnPhases)), columnPhase);
  Value offset =
      lanes.addIndex(lanes.mulIndex(phase, lanes.index(shape.phaseElements())),
                     lanes.addIndex(lanes.mulIndex(point, run), channel));
  return movedInCopy(patch, offset);
}

//===----------------------------------------------------------------------===//
// The copy
//===----------------------------------------------------------------------===//

/// The position in the image of a point of a phase.
Value ImagePatch::placeOf(const ImageWindows::Axis &axis, Value first,
                          int64_t phase) {
  Value place = lanes.mulIndex(first, lanes.index(axis.stride));
  return lanes.subIndex(lanes.addIndex(place, lanes.index(phase)),
                        lanes.index(axis.padding));
}

/// One unsigned comparison checks both ends.
Value ImagePatch::isInside(const ImageWindows::Axis &axis, Value place) {
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, place,
                                   lanes.index(axis.size));
}

void ImagePatch::pack(Value patch) {
  SmallVector<Lanes> first = gemm.point(gemm.tile.firstRow, Lanes(), Lanes());
  auto positionOf = [&](size_t i) {
    return first[gemm.contraction.rows[i]].value;
  };
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  Value image =
      moved(buffer.pointer, lanes.mulIndex(positionOf(0), buffer.strides[0]));
  Value firstRow = positionOf(1);
  for (int64_t rowPhase = 0; rowPhase < shape.rowPhases; ++rowPhase)
    lanes.loop(lanes.index(0), lanes.index(shape.rows), 1, [&](Value row) {
      Value place = placeOf(down, lanes.addIndex(firstRow, row), rowPhase);
      Value from = moved(image, lanes.mulIndex(place, buffer.strides[1]));
      for (int64_t phase = 0; phase < shape.columnPhases; ++phase) {
        int64_t start =
            (rowPhase * shape.columnPhases + phase) * shape.phaseElements();
        int64_t rowElements = shape.columns * shape.run;
        Value to = movedInCopy(
            patch,
            lanes.addIndex(lanes.index(start),
                           lanes.mulIndex(row, lanes.index(rowElements))));
        lanes.ifElse(
            isInside(down, place), {},
            [&] {
              packRow(from, to, phase);
              return SmallVector<Value>();
            },
            [&] {
              clear(to, rowElements);
              return SmallVector<Value>();
            });
      }
    });
}

void ImagePatch::packRow(Value from, Value to, int64_t phase) {
  if (right.stride == 1 && windows.isContiguous)
    packNeighbours(from, to);
  else
    packPoints(from, to, phase);
}

/// Copies a row whose points are consecutive, with padding before and after.
void ImagePatch::packNeighbours(Value from, Value to) {
  int64_t low = std::min(right.padding, shape.columns);
  int64_t inner = std::min(right.size, shape.columns - low);
  auto at = [&](int64_t column) {
    return movedInCopy(to, lanes.index(column * shape.run));
  };
  clear(to, low * shape.run);
  copy(from, at(low), inner * shape.run);
  clear(at(low + inner), (shape.columns - low - inner) * shape.run);
}

void ImagePatch::packPoints(Value from, Value to, int64_t phase) {
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  Value stride = buffer.strides[buffer.strides.size() - 2];
  lanes.loop(lanes.index(0), lanes.index(shape.columns), 1, [&](Value column) {
    Value place = placeOf(right, column, phase);
    Value here =
        movedInCopy(to, lanes.mulIndex(column, lanes.index(shape.run)));
    lanes.ifElse(
        isInside(right, place), {},
        [&] {
          copy(moved(from, lanes.mulIndex(place, stride)), here, shape.run);
          return SmallVector<Value>();
        },
        [&] {
          clear(here, shape.run);
          return SmallVector<Value>();
        });
  });
}

/// Copies whole vectors: runs consist of them.
void ImagePatch::copy(Value from, Value to, int64_t elements) {
  if (gemm.blocking.hasParts())
    return copyParts(from, to, elements);
  int64_t words = elements / gemm.blocking.kPack;
  lanes.loop(lanes.index(0), lanes.index(words), gemm.blocking.lanes,
             [&](Value at) {
               gemm.memory.store(gemm.memory.loadVector(from, at), to, at);
             });
}

void ImagePatch::copyParts(Value from, Value to, int64_t elements) {
  int64_t width = gemm.blocking.lanes, kPack = gemm.blocking.kPack;
  auto load = [&](Value at) {
    return gemm.memory.loadExtended(imageElement(), from, at);
  };
  lanes.loop(
      lanes.index(0), lanes.index(elements / kPack), width, [&](Value word) {
        Value low = lanes.mulIndex(word, lanes.index(kPack));
        Value high = lanes.addIndex(low, lanes.index(width));
        SmallVector<Value> parts =
            splitToParts(lanes, load(low), load(high), gemm.blocking.parts);
        storeParts(lanes, gemm.memory, parts, to, word, partBytes());
      });
}

void ImagePatch::clear(Value to, int64_t elements) {
  int64_t words = elements / gemm.blocking.kPack;
  SmallVector<Value> zeros(gemm.blocking.parts, gemm.memory.zeroVector());
  if (words > 0)
    lanes.loop(lanes.index(0), lanes.index(words), gemm.blocking.lanes,
               [&](Value at) {
                 storeParts(lanes, gemm.memory, zeros, to, at, partBytes());
               });
}

} // namespace codegen
} // namespace anabranch
