//===- TypedMemory.h - scratch memory of one element type -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A kernel's scratch memory holds elements of one type, that of its sums.
// `memory` points to the first of some elements; an offset counts elements.

#ifndef ANABRANCH_KERNELS_EMIT_TYPEDMEMORY_H
#define ANABRANCH_KERNELS_EMIT_TYPEDMEMORY_H

#include "kernels/emit/Lanes.h"

namespace anabranch {
namespace kernels {

class TypedMemory {
public:
  /// Vectors have `width` lanes, whatever the width of `lanes`.
  TypedMemory(LaneBuilder &lanes, mlir::Type element, int64_t width)
      : lanes(lanes), element(element), width(width) {}
  /// The same elements in vectors of another width.
  TypedMemory ofWidth(int64_t lanesOfVector) const {
    return {lanes, element, lanesOfVector};
  }

  int64_t elementBytes() const;
  mlir::Type vectorType() const;

  mlir::Value pointerTo(mlir::Value memory, mlir::Value offset) const;
  mlir::Value loadVector(mlir::Value memory, mlir::Value offset) const;
  mlir::Value loadScalar(mlir::Value memory, mlir::Value offset) const;
  /// Loads a vector of floats of a type that is not wider than the element
  /// type, to which it extends them. `offset` counts floats of that type.
  mlir::Value loadExtended(mlir::Type from, mlir::Value memory,
                           mlir::Value offset) const;
  /// Stores a vector or a scalar.
  void store(mlir::Value value, mlir::Value memory, mlir::Value offset) const;
  /// Stores the lanes of a vector that the mask selects.
  void storeMasked(mlir::Value vector, mlir::Value memory, mlir::Value offset,
                   mlir::Value mask) const;

  mlir::Value zeroVector() const;
  /// A vector whose bytes are all `byte`, which is zero for floats.
  mlir::Value filledVector(int8_t byte) const;
  mlir::Value zeroScalar() const;

  /// Extends a float, or a vector of floats, of a narrower type to the element
  /// type.
  Lanes extendFloat(Lanes value) const;

private:
  LaneBuilder &lanes;
  mlir::Type element;
  int64_t width;

  mlir::Value zero(mlir::Type type) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_TYPEDMEMORY_H
