//===- Isa.h - what a processor's instructions do, by operation -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Kernels and math ask here what an instruction set offers, and emit through it
// what plain vectors of LLVM cannot say. No question names an instruction or a
// feature. An instruction set is immutable; any thread may use it.

#ifndef ANABRANCH_NATIVE_ISA_ISA_H
#define ANABRANCH_NATIVE_ISA_ISA_H

#include "machine/processor/CpuModel.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "native/isa/Tiles.h"

namespace anabranch {
namespace native {

using machine::Multiply;

class Isa {
public:
  using Value = mlir::Value;

  virtual ~Isa() = default;

  //===-- Registers ------------------------------------------------------===//

  /// Bytes of a vector register, and how many of them there are.
  virtual int64_t vectorBytes() const = 0;
  virtual int64_t vectorRegisters() const = 0;

  /// Registers that hold matrices; null if there are none.
  virtual const Tiles *tiles() const = 0;

  //===-- Memory ---------------------------------------------------------===//

  /// Whether one instruction loads lanes of `bits` bits each from an address of
  /// its own.
  virtual bool hasGather(int64_t bits) const = 0;

  /// Whether an instruction loads an element into all lanes from an address
  /// plus any constant.
  virtual bool loadsAtDistance() const = 0;

  //===-- Products -------------------------------------------------------===//

  /// Whether an instruction multiplies so. Products of f32 exist everywhere.
  virtual bool has(Multiply multiply) const = 0;

  /// Whether an instruction rounds a * b + c once.
  virtual bool fusesMultiplyAdd() const = 0;

  /// Whether an instruction gives the larger of two f32 or f64, and NaN if one
  /// of them is.
  virtual bool hasExtrema() const = 0;

  /// The operands of a product of bytes. Two unsigned ones have none.
  enum class ByteSigns {
    Signed, ///< both are signed
    Mixed   ///< the first is unsigned, the second signed
  };

  /// Whether dotBytes has an instruction for so many sums.
  virtual bool hasByteDot(ByteSigns signs, int64_t lanes) const = 0;

  /// Adds to each sum of 32 bits the four products of the bytes of two words.
  /// Nothing saturates. Only if hasByteDot.
  virtual Value dotBytes(mlir::OpBuilder &b, mlir::Location loc,
                         ByteSigns signs, Value sum, Value first,
                         Value second) const = 0;

  /// The products of signed integers of 16 bits, added in pairs of neighbours
  /// to 32 bits: half as many lanes.
  virtual Value dotShorts(mlir::OpBuilder &b, mlir::Location loc, Value first,
                          Value second) const = 0;

  /// Adds to each sum of f32 the two products of pairs of bf16. Only if
  /// Multiply::DotBF16 exists.
  virtual Value dotBF16(mlir::OpBuilder &b, mlir::Location loc, Value sum,
                        Value first, Value second) const = 0;

  //===-- Conversions ----------------------------------------------------===//

  /// Whether instructions convert between f16 and f32.
  virtual bool convertsF16() const = 0;

  /// Whether an instruction rounds whole vectors of f32 to bf16.
  virtual bool roundsToBF16() const = 0;

  /// The bf16 nearest to a vector of f32, or to two vectors, one after the
  /// other. Numbers below 2^-126 become zero. Null if no instruction does it
  /// for so many lanes.
  virtual Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc,
                            Value floats) const = 0;
  virtual Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc, Value first,
                            Value second) const = 0;

  //===-- Math -----------------------------------------------------------===//

  /// Whether `scale` exists for this type.
  virtual bool hasScale(mlir::Type type) const = 0;
  /// a * 2^n for integral n, rounded once.
  virtual Value scale(mlir::OpBuilder &b, mlir::Location loc, Value a,
                      Value n) const = 0;

  /// Whether `lookup` makes vectors of this type from tables of 16 and 32
  /// elements, of 32 if the elements have 16 bits, or of 128 if they have 8.
  virtual bool hasLookup(mlir::Type type) const = 0;
  /// table[low bits of index], for each lane.
  virtual Value lookup(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::DenseElementsAttr table, Value index) const = 0;
  /// table[index], for each lane: a table of 16 f32 that the run knows, and
  /// words from 0 to 15 in one register. Every instruction set has it.
  virtual Value lookupIn(mlir::OpBuilder &b, mlir::Location loc, Value table,
                         Value index) const = 0;

  //===-- Products of matrices -------------------------------------------===//

  enum class MatrixProduct {
    BF16,
    Int8,     ///< both are signed
    MixedInt8 ///< the first is unsigned, the second signed
  };

  /// Whether an instruction multiplies the matrices of two vectors.
  virtual bool hasMatrices(MatrixProduct product) const = 0;

  /// Adds to four sums, row by row, the product of two matrices. `first` has
  /// two rows, each half a vector along the depth, and `second` two columns.
  /// Only if hasMatrices.
  virtual Value multiplyMatrices(mlir::OpBuilder &b, mlir::Location loc,
                                 MatrixProduct product, Value sum, Value first,
                                 Value second) const = 0;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_ISA_H
