//===- DType.h - PyTorch's dtypes on signless MLIR types --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Dtypes are values without state: any thread may use them.

#ifndef ANABRANCH_IMPORT_SCALAR_DTYPE_H
#define ANABRANCH_IMPORT_SCALAR_DTYPE_H

#include "mlir/IR/Types.h"
#include <cstdint>
#include <optional>

namespace anabranch {
namespace importer {

/// An element type, and whether its integers are unsigned. The MLIR type alone
/// does not say that: uint8 and int8 are both `i8`.
struct DType {
  mlir::Type type;
  bool isUnsigned = false;

  bool isBool() const;
  /// An integer that is not bool.
  bool isInt() const;
  /// An integer of eight bits.
  bool isByte() const;
  bool isFloat() const;
  /// A float of eight bits. It is stored and converted, and not computed with.
  bool isSmallFloat() const;
  unsigned width() const;
  /// The dtype in which PyTorch computes: f32 for floats of eight and 16 bits,
  /// else the dtype itself.
  DType math() const;

  static DType boolean(mlir::MLIRContext *context);
  static DType integer(mlir::MLIRContext *context, unsigned width);
  static DType f32(mlir::MLIRContext *context);
  static DType f64(mlir::MLIRContext *context);

  bool operator==(const DType &other) const {
    return type == other.type && isUnsigned == other.isUnsigned;
  }
  bool operator!=(const DType &other) const { return !(*this == other); }
};

/// Sets of the dtypes that lowerings know, for the operator table.
using DTypeSet = uint32_t;
enum : DTypeSet {
  Bool = 1 << 0,
  U8 = 1 << 1,
  I8 = 1 << 2,
  I16 = 1 << 3,
  I32 = 1 << 4,
  I64 = 1 << 5,
  F16 = 1 << 6,
  BF16 = 1 << 7,
  F32 = 1 << 8,
  F64 = 1 << 9,
  Ints = U8 | I8 | I16 | I32 | I64,
  Floats = F16 | BF16 | F32 | F64,
  Numbers = Ints | Floats,
  AllDTypes = Bool | Numbers,
  /// For operators that move and convert elements.
  F8E4M3FN = F64 << 3,
  F8E5M2 = F64 << 4,
  F8E4M3FNUZ = F64 << 5,
  F8E5M2FNUZ = F64 << 6,
  SmallFloats = F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ,
  Movable = AllDTypes | SmallFloats,
  /// For operators that take complex numbers as pairs of real ones.
  C64 = F64 << 1,
  C128 = F64 << 2,
};

/// The one-element set of this dtype. Empty for a dtype that no lowering takes
/// (complex32, wide unsigned integers).
DTypeSet setOf(DType dtype);

/// The name in the graph description ("f32", "u8", "bool"), or "?".
llvm::StringRef nameOf(DType dtype);

/// The dtype of a graph description's name. u16, u32 and u64 give unsigned MLIR
/// types. None if there is no such dtype.
std::optional<DType> parseDType(llvm::StringRef name,
                                mlir::MLIRContext *context);

/// torch.promote_types, for the ten dtypes.
DType promoteTypes(DType a, DType b);

/// How strongly an operand takes part in torch.result_type.
enum class Rank { Wrapped, ZeroDim, Tensor };

/// Computes torch.result_type, one operand after the other.
class Promotion {
public:
  void add(DType dtype, Rank rank);
  /// None if no operand was added.
  std::optional<DType> result() const;

private:
  std::optional<DType> kinds[3];
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_SCALAR_DTYPE_H
