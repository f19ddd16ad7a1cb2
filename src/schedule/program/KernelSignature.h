//===- KernelSignature.h - what tells kernels apart -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PROGRAM_KERNELSIGNATURE_H
#define ANABRANCH_SCHEDULE_PROGRAM_KERNELSIGNATURE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace anabranch {
namespace schedule {

/// Collects everything that distinguishes kernels: attributes and types by
/// their uniqued addresses, values by their numbers. It leaves out names and
/// locations.
class SignatureBuilder {
public:
  std::vector<uintptr_t> words;

  void add(mlir::Attribute attr) { words.push_back(pointer(attr)); }
  void add(mlir::Type type) { words.push_back(pointer(type)); }
  void add(uintptr_t word) { words.push_back(word); }

  void addRegion(mlir::Region &region) {
    for (mlir::Block &block : region) {
      add(block.getNumArguments());
      for (mlir::BlockArgument argument : block.getArguments())
        define(argument);
      add(block.getOperations().size());
      for (mlir::Operation &op : block)
        addOp(op);
    }
  }

private:
  template <typename T> static uintptr_t pointer(T value) {
    return reinterpret_cast<uintptr_t>(value.getAsOpaquePointer());
  }
  void define(mlir::Value value) {
    add(value.getType());
    numbers.try_emplace(value, numbers.size());
  }
  void addOp(mlir::Operation &op) {
    words.push_back(
        reinterpret_cast<uintptr_t>(op.getName().getAsOpaquePointer()));
    add(mlir::Attribute(op.getAttrDictionary()));
    add(op.getNumOperands());
    for (mlir::Value operand : op.getOperands())
      add(numbers.lookup(operand));
    for (mlir::Value result : op.getResults())
      define(result);
    add(op.getNumRegions());
    for (mlir::Region &region : op.getRegions())
      addRegion(region);
  }

  llvm::DenseMap<mlir::Value, uintptr_t> numbers;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_KERNELSIGNATURE_H
