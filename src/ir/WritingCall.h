//===- WritingCall.h - operators that write their arguments -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Tensors of @main are values, also where the operator of an `anabranch.aten`
// writes memory. The call takes the old value of each memory as an operand, and
// its last results are the new values:
//
//   %r, %new = anabranch.aten "mylib::attend"(%q, %old) ordered
//       {q = #anabranch.operand<0>, cache = {written = 0}}
//       {anabranch.written = array<i64: 1>}
//
// `anabranch.written` has the operand of each memory; -1 stands for a memory
// that holds nothing yet. The argument `{written = 0}` is the first memory, and
// with `sizes`, `strides` and `offset`, in elements, a view of the memory.
// `anabranch.written_strides` has the strides of each memory, or unit for a
// memory without gaps, row by row. The schedule decides whether the new value
// lies where the old one lay (schedule/program/Overwrites.h).

#ifndef ANABRANCH_IR_WRITINGCALL_H
#define ANABRANCH_IR_WRITINGCALL_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace ir {

/// The entries of an argument that the operator writes.
constexpr llvm::StringLiteral writtenEntry = "written", viewSizes = "sizes",
                              viewStrides = "strides", viewOffset = "offset";

/// The operand of each memory that the call writes, or -1.
llvm::ArrayRef<int64_t> writtenOperands(AtenOp call);
/// `strides` has those of each memory; null: row by row.
void setWritten(mlir::Operation *call, llvm::ArrayRef<int64_t> operands,
                llvm::ArrayRef<mlir::DenseI64ArrayAttr> strides);

/// The results that the operator returns: all but the new values.
mlir::ResultRange returnedValues(AtenOp call);
/// The new values of the memories that the call writes.
mlir::ResultRange newValues(AtenOp call);

/// The number of the call's memory whose new value this is; -1 for any other
/// value.
int64_t memoryNumber(mlir::Value value);
/// The value that a new value replaces. Null if the memory held nothing, or if
/// `value` is no new value.
mlir::Value oldValue(mlir::Value value);

/// The strides of the memory of a new value as the operator sees them; null:
/// row by row.
mlir::DenseI64ArrayAttr stridesOfMemory(mlir::Value newValue);

/// The memory of an argument that the operator writes.
int64_t writtenNumber(mlir::DictionaryAttr argument);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_WRITINGCALL_H
