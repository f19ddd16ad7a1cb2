//===- ImagePatch.cpp - the part of an image that a tile reads ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/ImagePatch.h"

#include "kernels/microkernel/FloatParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

Type ImagePatch::imageElement() const {
  return cast<RankedTensorType>(windows.image.getType()).getElementType();
}

/// An element of the copy is a part of a word.
int64_t ImagePatch::partBytes() const {
  return shape.elements() * gemm.memory.elementBytes() / gemm.layout.word.kPack;
}

int64_t ImagePatch::scratchElements() const {
  return llvm::divideCeil(gemm.layout.steps.parts * partBytes(),
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

/// An element of the copy. Parts of words are integers.
Type ImagePatch::copyElement() const {
  if (gemm.layout.word.kPack == 1)
    return gemm.contraction.element;
  unsigned bits = 8 * gemm.memory.elementBytes() / gemm.layout.word.kPack;
  return lanes.builder.getIntegerType(bits);
}

Value ImagePatch::movedInCopy(Value pointer, Value elements) const {
  return movedBy(lanes, copyElement(), pointer, elements);
}

//===----------------------------------------------------------------------===//
// Windows of the copy
//===----------------------------------------------------------------------===//

/// The place of a tap along an axis: how many phases, and points of its phase,
/// it is after the window's first.
struct Shift {
  Value phase, points;
};

static Shift shiftOf(LaneBuilder &lanes, const ImageWindows::Axis &axis,
                     Value tap) {
  Value distance = lanes.mulIndex(tap, lanes.index(axis.dilation));
  Value phases = lanes.index(axis.phases());
  return {lanes.remIndex(distance, phases), lanes.divIndex(distance, phases)};
}

Value ImagePatch::offsetOfRun(LaneBuilder &lanes,
                              const ImageWindows::Axes &axes,
                              const PatchShape &shape, Value run) {
  auto times = [&](Value number, int64_t elements) {
    return lanes.mulIndex(number, lanes.index(elements));
  };
  Value column = lanes.index(0), perRow = lanes.index(axes.columns.taps);
  if (!shape.joinsTaps) {
    Shift shift = shiftOf(lanes, axes.columns, lanes.remIndex(run, perRow));
    column = lanes.addIndex(times(shift.phase, shape.phaseElements()),
                            times(shift.points, shape.numberElements()));
    run = lanes.divIndex(run, perRow);
  }
  Value rows = lanes.index(axes.rows.taps);
  Shift shift = shiftOf(lanes, axes.rows, lanes.remIndex(run, rows));
  Value row = lanes.addIndex(
      times(shift.phase, shape.columnPhases * shape.phaseElements()),
      times(shift.points, shape.rowElements()));
  Value slice = times(lanes.divIndex(run, rows), shape.sliceElements());
  return lanes.addIndex(slice, lanes.addIndex(row, column));
}

Value ImagePatch::at(Value patch, Value number, Value depth) {
  Value run = lanes.index(shape.run);
  Value offset = offsetOfRun(lanes, axes, shape, lanes.divIndex(depth, run));
  offset = lanes.addIndex(offset, lanes.remIndex(depth, run));
  return movedInCopy(
      patch,
      lanes.addIndex(
          offset, lanes.mulIndex(number, lanes.index(shape.numberElements()))));
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

/// Calls `pack` where `place` is in the image, and fills the padding.
void ImagePatch::packOrFill(const ImageWindows::Axis &axis, Value place,
                            Value to, int64_t elements,
                            function_ref<void()> pack) {
  // One unsigned comparison checks both ends.
  Value isInside = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, place,
                                             lanes.index(axis.size));
  lanes.ifElse(
      isInside, {},
      [&] {
        pack();
        return SmallVector<Value>();
      },
      [&] {
        fillPadding(to, elements);
        return SmallVector<Value>();
      });
}

void ImagePatch::pack(Value patch) {
  SmallVector<Lanes> first = gemm.point(gemm.tile.firstRow, Lanes(), Lanes());
  auto positionOf = [&](size_t i) {
    return first[gemm.contraction.rows[i]].value;
  };
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  Value image =
      moved(buffer.pointer, lanes.mulIndex(positionOf(0), buffer.strides[0]));
  if (windows.group)
    image = moved(image, lanes.mulIndex(first[*windows.group].value,
                                        lanes.index(windows.run)));
  bool isVolume = gemm.contraction.rows.size() > 3;
  Value firstRow = positionOf(isVolume ? 2 : 1);
  if (!isVolume)
    return packSlice(image, patch, firstRow);
  lanes.loop(lanes.index(0), lanes.index(shape.slices), 1, [&](Value tap) {
    const ImageWindows::Axis &axis = axes.slices;
    Value distance = lanes.mulIndex(tap, lanes.index(axis.dilation));
    Value place = lanes.addIndex(placeOf(axis, positionOf(1), 0), distance);
    Value to = movedInCopy(
        patch, lanes.mulIndex(tap, lanes.index(shape.sliceElements())));
    packOrFill(axis, place, to, shape.sliceElements(), [&] {
      Value slice = moved(image, lanes.mulIndex(place, buffer.strides[1]));
      packSlice(slice, to, firstRow);
    });
  });
}

void ImagePatch::packSlice(Value image, Value patch, Value firstRow) {
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  Value stride = buffer.strides[gemm.contraction.rows.size() > 3 ? 2 : 1];
  const ImageWindows::Axis &axis = axes.rows;
  for (int64_t rowPhase = 0; rowPhase < shape.rowPhases; ++rowPhase)
    lanes.loop(lanes.index(0), lanes.index(shape.rows), 1, [&](Value row) {
      Value place = placeOf(axis, lanes.addIndex(firstRow, row), rowPhase);
      Value from = moved(image, lanes.mulIndex(place, stride));
      for (int64_t phase = 0; phase < shape.columnPhases; ++phase) {
        int64_t start =
            (rowPhase * shape.columnPhases + phase) * shape.phaseElements();
        Value to = movedInCopy(
            patch, lanes.addIndex(
                       lanes.index(start),
                       lanes.mulIndex(row, lanes.index(shape.rowElements()))));
        packOrFill(axis, place, to, shape.rowElements(),
                   [&] { packRow(from, to, phase); });
      }
    });
}

void ImagePatch::packRow(Value from, Value to, int64_t phase) {
  if (shape.joinsTaps || axes.columns.stride == 1)
    packNeighbours(from, to);
  else
    packPoints(from, to, phase);
}

/// Copies a row of consecutive points, with padding before and after.
void ImagePatch::packNeighbours(Value from, Value to) {
  int64_t points = shape.columns * shape.pointsOfColumn;
  int64_t low = std::min(axes.columns.padding, points);
  int64_t inner = std::min(axes.columns.size, points - low);
  auto at = [&](int64_t point) {
    return movedInCopy(to, lanes.index(point * shape.channels));
  };
  fillPadding(to, low * shape.channels);
  if (windows.isContiguous && !windows.group)
    copyPoints(from, at(low), inner);
  else
    lanes.loop(lanes.index(0), lanes.index(inner), 1, [&](Value point) {
      Value here = lanes.mulIndex(point, lanes.index(shape.channels));
      copyPoints(moved(from, lanes.mulIndex(point, pointStride())),
                 movedInCopy(at(low), here), 1);
    });
  fillPadding(at(low + inner), (points - low - inner) * shape.channels);
}

/// Elements from one point of a row of the image to the next.
Value ImagePatch::pointStride() {
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  return buffer.strides[buffer.strides.size() - 2];
}

/// Copies the points of a phase of a row.
void ImagePatch::packPoints(Value from, Value to, int64_t phase) {
  Value points = lanes.index(shape.columns);
  lanes.loop(lanes.index(0), points, 1, [&](Value point) {
    Value place = placeOf(axes.columns, point, phase);
    Value here =
        movedInCopy(to, lanes.mulIndex(point, lanes.index(shape.channels)));
    packOrFill(axes.columns, place, here, shape.channels, [&] {
      copyPoints(moved(from, lanes.mulIndex(place, pointStride())), here, 1);
    });
  });
}

void ImagePatch::copyPoints(Value from, Value to, int64_t points) {
  if (!shape.padsChannels())
    return copy(from, to, points * shape.channels);
  // As many points at once as a vector of the copy has.
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  int64_t together = width / shape.channels, rest = points % together;
  if (points >= together)
    lanes.loop(lanes.index(0), lanes.index(points - rest), together,
               [&](Value point) { padPoints(from, to, point, together); });
  if (rest)
    padPoints(from, to, lanes.index(points - rest), rest);
}

/// Copies points, with channels of zeros after each.
void ImagePatch::padPoints(Value from, Value to, Value first, int64_t count) {
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  Buffer image{from, imageElement(), {lanes.index(1)}};
  auto maskOf = [&](int64_t elements) {
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    return lanes.prefixMask(lanes.index(elements));
  };
  LaneBuilder::MaskGuard guard(lanes, width,
                               maskOf(count * shape.imageChannels));
  Value at = lanes.mulIndex(first, lanes.index(shape.imageChannels));
  Value vector = castBits(
      lanes, lanes.vector(load(lanes, image, {Lanes::linear(at, 1, width)})),
      copyElement());
  // The last lane was not read, and is zero.
  SmallVector<int64_t> order(width, width - 1);
  for (int64_t point = 0; point < count; ++point)
    for (int64_t channel = 0; channel < shape.imageChannels; ++channel)
      order[point * shape.channels + channel] =
          point * shape.imageChannels + channel;
  vector = lanes.make<vector::ShuffleOp>(vector, vector, order);
  Value mask =
      count * shape.channels < width ? maskOf(count * shape.channels) : Value();
  store(vector, to, lanes.mulIndex(first, lanes.index(shape.channels)), mask);
}

/// Calls `body` for the vectors of so many elements of the copy, with a mask
/// for a last one that is not whole; it is null for whole ones.
void ImagePatch::forVectors(int64_t elements,
                            function_ref<void(Value at, Value mask)> body) {
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  int64_t whole = elements / width * width;
  if (whole)
    lanes.loop(lanes.index(0), lanes.index(whole), width,
               [&](Value at) { body(at, Value()); });
  if (whole == elements)
    return;
  LaneBuilder::MaskGuard guard(lanes, width, Value());
  body(lanes.index(whole), lanes.prefixMask(lanes.index(elements - whole)));
}

/// The elements of the image as the copy holds them.
void ImagePatch::copy(Value from, Value to, int64_t elements) {
  if (gemm.layout.steps.hasParts())
    return copyParts(from, to, elements);
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  Buffer image{from, imageElement(), {lanes.index(1)}};
  forVectors(elements, [&](Value at, Value mask) {
    LaneBuilder::MaskGuard guard(lanes, width, mask);
    Value vector =
        lanes.vector(load(lanes, image, {Lanes::linear(at, 1, width)}));
    if (gemm.layout.word.kPack == 1)
      vector = lanes.vector(gemm.memory.extendFloat(lanes.wrap(vector)));
    else
      vector = castBits(lanes, vector, copyElement());
    store(vector, to, at, mask);
  });
}

/// Stores a vector of the copy, or the lanes that a mask selects.
void ImagePatch::store(Value vector, Value to, Value at, Value mask) {
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  TypedMemory memory(lanes, copyElement(), width);
  if (mask)
    memory.storeMasked(vector, to, at, mask);
  else
    memory.store(vector, to, at);
}

void ImagePatch::copyParts(Value from, Value to, int64_t elements) {
  int64_t width = gemm.layout.tiling.lanes, kPack = gemm.layout.word.kPack;
  auto load = [&](Value at) {
    return gemm.memory.loadExtended(imageElement(), from, at);
  };
  lanes.loop(
      lanes.index(0), lanes.index(elements / kPack), width, [&](Value word) {
        Value low = lanes.mulIndex(word, lanes.index(kPack));
        Value high = lanes.addIndex(low, lanes.index(width));
        SmallVector<Value> parts =
            splitToParts(lanes, load(low), load(high), gemm.layout.steps.parts);
        storeParts(lanes, gemm.memory, parts, to, word, partBytes());
      });
}

void ImagePatch::fillPadding(Value to, int64_t elements) {
  int64_t kPack = gemm.layout.word.kPack;
  SmallVector<Value> words(gemm.layout.steps.parts,
                           gemm.memory.filledVector(windows.fill));
  forVectors(elements, [&](Value at, Value mask) {
    Value word = lanes.divIndex(at, lanes.index(kPack));
    if (!mask)
      return storeParts(lanes, gemm.memory, words, to, word, partBytes());
    int64_t width = gemm.layout.tiling.lanes * kPack;
    store(TypedMemory(lanes, copyElement(), width).filledVector(windows.fill),
          to, at, mask);
  });
}

} // namespace kernels
} // namespace anabranch
