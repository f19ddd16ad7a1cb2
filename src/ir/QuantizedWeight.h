//===- QuantizedWeight.h - weights of 4 and 8 bits --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A frozen weight that products read is kept as small unsigned integers q, and
//
//   weight[n, k] = (q[n, k] - center) * scale[k / group, n]
//                  + offset[k / group, n]
//
// The integers are stored in panels of 64 columns, which are 64 bytes times 4:
//
//   4 bits: [ceil(N / 64)][K' / 8][64][4] bytes; the low nibbles of four bytes
//           are the depths 8 * i + 0..3 of a column, the high ones 8 * i + 4..7
//   4 bits, pairs of columns: [ceil(N / 64)][K' / 8][8][4][8] bytes, the depths
//           8 * i + 0..7; the low nibbles are the columns 8 * j + 0..3, the
//           high ones 8 * j + 4..7
//   8 bits: [ceil(N / 64)][K' / 4][64][4] bytes, the depths 4 * i + 0..3
//
// where K' is K rounded up to a multiple of 16. A weight of floats of eight
// bits has their codes in the place of q, and their values in the place of q -
// center. Its layout is that of 8 bits. A weight whose elements a table of at
// most 16 numbers holds (NF4, MXFP4) has their positions in the place of q, and
// table[q] in the place of q - center. Its layout is that of 4 bits, and its
// table has 16 elements of f32.
//
// Scale and offset are
// [ceil(N / 64)][ceil(K / group)][64], f32, or f16 and bf16 where the model has
// them so. A weight whose zero points are one number has no offset. Elements
// beyond N and K repeat the last one.

#ifndef ANABRANCH_IR_QUANTIZEDWEIGHT_H
#define ANABRANCH_IR_QUANTIZEDWEIGHT_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>

namespace anabranch {
namespace ir {

struct QuantizedWeight {
  int64_t bits;   ///< 4 or 8
  int64_t group;  ///< depths that share a scale
  int64_t center; ///< the integer that stands for zero if there is no offset
  /// The form in which products read their other operand.
  enum class Left : int64_t {
    Exact,   ///< numbers with the precision of their type
    Rounded, ///< bytes, with a scale for each row and some depths
    Bytes,   ///< bytes: its elements are whole numbers from -128 to 127
  };
  Left left = Left::Exact;
  /// The number format of a code.
  enum class Code : int64_t {
    Integer,
    E4M3FN,
    E5M2,
    E4M3FNUZ,
    E5M2FNUZ,
    Table ///< a position in a table
  };
  Code code = Code::Integer;
  /// Whether there are scales. Without them they are one.
  bool hasScale = true;
  /// The two integers of a byte of a weight of 4 bits.
  enum class Nibbles : int64_t {
    Depths, ///< of one column
    Columns ///< of one depth
  };
  Nibbles nibbles = Nibbles::Depths;

  /// The code of an element type; Integer if it is no float of eight bits.
  static Code codeOf(mlir::Type type);
  /// The type of a code that is a float; null for integers and positions.
  mlir::FloatType floatType(mlir::MLIRContext *context) const;

  static constexpr int64_t tableSize = 16;
  static constexpr int64_t panelColumns = 64;
  static constexpr int64_t depthMultiple = 16;
  /// The columns whose nibbles share bytes, if bytes have pairs of columns.
  static constexpr int64_t groupColumns = 8;

  /// The depths of a column that the four bytes of one step hold.
  int64_t stepDepths() const { return bits == 4 ? 8 : 4; }
  bool pairsColumns() const { return nibbles == Nibbles::Columns; }
  static int64_t paddedDepths(int64_t depths);
  int64_t steps(int64_t depths) const {
    return paddedDepths(depths) / stepDepths();
  }
  static int64_t panels(int64_t columns);
  int64_t groups(int64_t depths) const { return (depths + group - 1) / group; }
};

/// Marks the generic that computes the weight, element by element. Its body
/// extracts from the integers, the scales and, if there are any, the offsets.
void setQuantizedWeight(mlir::Operation *op, const QuantizedWeight &weight);

/// The mark of an operation; none if it is null or has no mark.
std::optional<QuantizedWeight> quantizedWeightOf(mlir::Operation *op);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_QUANTIZEDWEIGHT_H
