//===- CommandBuilder.h - the program's commands ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PROGRAM_COMMANDBUILDER_H
#define ANABRANCH_SCHEDULE_PROGRAM_COMMANDBUILDER_H

#include "schedule/program/BufferTable.h"
#include "schedule/program/KernelTable.h"

namespace anabranch {
namespace schedule {

/// Writes the commands of @main, in its order. A dispatch becomes a launch, an
/// `anabranch.aten` a call. A copy follows if a value must be stored in another
/// place than its maker writes it to. Dispatches over constants go to
/// `initialize`.
class CommandBuilder {
public:
  CommandBuilder(mlir::func::FuncOp main, SizeTable &sizes,
                 const Overwrites &overwrites, const Placement &placement,
                 BufferTable &buffers);

  mlir::LogicalResult build(ir::StreamOp initialize, ir::StreamOp stream);

private:
  mlir::LogicalResult buildLaunch(ir::DispatchOp dispatch);
  void readInput(mlir::Value input);
  void writeResult(mlir::OpResult result);
  int64_t placeResult(mlir::OpResult result);
  void addDims(mlir::Value value);

  void addSpare(ir::AtenOp loop);
  mlir::LogicalResult buildCall(ir::AtenOp call);
  bool isFoldedToStrided(ir::AtenOp call, unsigned operand);
  mlir::Attribute argumentOf(ir::AtenOp call, mlir::Attribute argument);
  void prepareWrites(ir::AtenOp call);
  llvm::SmallVector<int64_t> placeReturned(ir::AtenOp call);
  mlir::LogicalResult
  buildArguments(ir::AtenOp call, llvm::SmallVectorImpl<mlir::Attribute> &names,
                 llvm::SmallVectorImpl<mlir::Attribute> &arguments);
  bool isReadOtherwise(mlir::OpResult result);
  void keepForOthers(mlir::OpResult result, mlir::Value buffer);

  mlir::LogicalResult buildEarlyCopies(llvm::SmallVectorImpl<unsigned> &late);
  mlir::LogicalResult buildLateCopies(llvm::ArrayRef<unsigned> late);
  mlir::LogicalResult buildCopy(unsigned number);
  void keepValue(unsigned number, mlir::Value value);
  void copy(mlir::Value value, mlir::Value source, mlir::Value destination);
  void copy(mlir::Location loc, mlir::Operation *streamOf, mlir::Value source,
            mlir::Value destination);

  mlir::func::FuncOp main;
  SizeTable &sizes;
  const Overwrites &overwrites;
  const Placement &placement;
  BufferTable &buffers;
  KernelTable kernels;
  mlir::OpBuilder b;
  ir::StreamOp initialize, stream;
  /// Values in the memory of inputs, which the program writes into other inputs
  /// at the end. The key is the result.
  llvm::DenseMap<unsigned, mlir::Value> keptValues;

  // The command that is being built.
  llvm::SmallVector<mlir::Value> reads, writes;
  llvm::SmallVector<mlir::Attribute> launchSizes;
  KernelLayout layout;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_COMMANDBUILDER_H
