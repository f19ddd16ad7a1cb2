//===- BufferTable.h - the program's buffers --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Hands out the buffer of each tensor of @main while the program is built.
// Tensors share a memory where one is a reshape of the other, or overwrites it;
// a memory has one buffer for each shape, dtype and strides that are asked for.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_BUFFERTABLE_H
#define ANABRANCH_SCHEDULE_PROGRAM_BUFFERTABLE_H

#include "ir/Anabranch.h"
#include "schedule/program/Placement.h"
#include "schedule/program/SizeTable.h"

namespace anabranch {
namespace schedule {

class BufferTable {
public:
  BufferTable(mlir::func::FuncOp main, SizeTable &sizes,
              const Placement &placement);

  /// The table declares buffers in front of this operation of the program.
  void declareBefore(mlir::Operation *op) { declarations = op; }

  /// The number of an argument among the program's inputs.
  int64_t inputNumber(unsigned argument) const {
    return inputNumbers.lookup(argument);
  }
  /// The number of a result of @main among the program's outputs; -1 if the
  /// program writes it into an input instead.
  int64_t outputNumber(unsigned result) const { return outputNumbers[result]; }

  mlir::ArrayAttr shapeOf(mlir::Value value);
  /// The strides as sizes; null for null.
  mlir::ArrayAttr sizesAttr(mlir::DenseI64ArrayAttr strides);

  /// Gives the result of a kernel or a call its memory: its Placement, or a new
  /// memory of the kind `otherwise`.
  void place(mlir::Value result, llvm::StringRef otherwise);
  /// Lets a kernel's result overwrite an input of the kernel of the same size
  /// in bytes. False if the input's memory is not in the arena.
  bool placeOver(mlir::Value result, mlir::Value input);
  /// Lets a call's new value lie where the old one lies, whatever memory it is.
  void placeInPlace(mlir::Value newValue, mlir::Value old);
  /// Gives a call's new value memory of its own.
  void placeApart(mlir::Value newValue);
  /// The memory of a call's new value, in the layout that the operator writes.
  mlir::Value ofNewValue(mlir::Value newValue);
  /// Whether the operator writes the new value with strides.
  bool isStrided(mlir::Value newValue) {
    return static_cast<bool>(memoryOf(newValue).strides);
  }
  /// The buffer of a tensor: its memory, with its shape and dtype.
  mlir::Value of(mlir::Value value, llvm::StringRef dtype = {});
  mlir::Value ofInput(unsigned argument);
  mlir::Value ofOutput(unsigned number, mlir::Value value);
  /// A new buffer in the arena, for a copy of `source`.
  mlir::Value copyOf(mlir::Value source, mlir::Location loc);
  /// A new buffer in the arena for one bool.
  mlir::Value flag(mlir::Location loc);
  /// From now on, other shapes and dtypes of `value` read the bytes of this
  /// buffer, and `value` itself does where it has strides.
  void readFrom(mlir::Value value, mlir::Value buffer);

  /// True after a caller asked for a size that is no arithmetic on sizes of
  /// inputs. The diagnostic has been reported.
  bool failed() const { return failedSizes; }

private:
  struct Memory {
    llvm::StringRef kind;
    int64_t number = 0;
    std::optional<int64_t> index;    // of an input or output
    mlir::StringAttr name;           // of a constant
    mlir::DenseI64ArrayAttr strides; // null: contiguous
  };

  Memory newMemory(llvm::StringRef kind, std::optional<int64_t> index = {},
                   mlir::StringAttr name = {});
  /// The memory that holds the bytes of a tensor of @main.
  Memory &memoryOf(mlir::Value value);
  Memory &memoryOfOutput(unsigned number);
  /// The dtype of a tensor with the sign of its integers: the type of an
  /// argument says it, and a reshape has that of its source.
  llvm::StringRef dtypeOf(mlir::Value value);
  mlir::Attribute bytesOf(llvm::StringRef dtype, mlir::ArrayAttr shape,
                          mlir::ArrayAttr strides);
  mlir::Value create(const Memory &memory, mlir::Location loc,
                     llvm::StringRef dtype, mlir::ArrayAttr shape,
                     mlir::ArrayAttr strides = {});

  mlir::func::FuncOp main;
  SizeTable &sizes;
  const Placement &placement;
  mlir::OpBuilder arith; // index arithmetic in @main
  mlir::Operation *declarations = nullptr;
  bool failedSizes = false;

  llvm::DenseMap<mlir::Value, Memory> memories;
  llvm::DenseMap<mlir::Value, Memory> readInstead;
  llvm::DenseMap<
      std::tuple<int64_t, mlir::Attribute, mlir::Attribute, mlir::Attribute>,
      mlir::Value>
      buffers;
  llvm::DenseMap<unsigned, int64_t> inputNumbers;
  llvm::SmallVector<int64_t> outputNumbers;
  llvm::DenseMap<unsigned, Memory> outputMemories;
  int64_t memoryCount = 0;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_BUFFERTABLE_H
