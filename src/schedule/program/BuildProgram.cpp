//===- BuildProgram.cpp - @main becomes kernels and a program -------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Level "dispatch" to level "program". Every tensor becomes a buffer, every
// dispatch a kernel function and a launch, every `anabranch.aten` a call. Index
// arithmetic becomes the sizes function. One stream holds the commands in the
// order of @main. PlanMemory later gives buffers their places in the arena.

#include "ir/PassBase.h"
#include "ir/ResultDims.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/program/CommandBuilder.h"
#include "schedule/program/Passes.h"
#include "schedule/program/RegionCall.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

class ProgramBuilder {
public:
  explicit ProgramBuilder(func::FuncOp main)
      : main(main), module(main->getParentOfType<ModuleOp>()), sizes(main),
        overwrites(main), placement(main, overwrites),
        buffers(main, sizes, placement), b(main.getContext()) {}

  LogicalResult build();

private:
  void buildInputs();
  void buildInput(BlockArgument argument);
  LogicalResult buildStreams();
  LogicalResult buildOutputs();
  LogicalResult buildOutput(unsigned number, Value value);

  func::FuncOp main;
  ModuleOp module;
  SizeTable sizes;
  Overwrites overwrites;
  Placement placement;
  BufferTable buffers;
  OpBuilder b;
  ir::ProgramOp program;
};

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

void ProgramBuilder::buildInput(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  auto attr = [&](StringRef name) {
    return main.getArgAttrOfType<StringAttr>(number, name);
  };
  StringAttr name = attr("anabranch.name");
  if (!name)
    name = b.getStringAttr("arg" + Twine(number));
  bool isScalar = argument.getType().isIndex();
  StringAttr dtype = attr("anabranch.dtype");
  if (!dtype)
    dtype = b.getStringAttr(
        isScalar ? "i64" : dtypeName(getElementTypeOrSelf(argument.getType())));
  ArrayAttr shape = isScalar ? b.getArrayAttr({}) : buffers.shapeOf(argument);
  SmallVector<int64_t> defines;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (sizes.definesSlot(argument, dim))
      defines.push_back(dim);
  IntegerAttr scalarSlot;
  if (isScalar)
    scalarSlot =
        b.getI64IntegerAttr(cast<ir::SlotAttr>(sizes.get(argument)).getIndex());
  bool mutated = !!main.getArgAttr(number, "anabranch.mutated");
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (auto input =
            main.getResultAttrOfType<IntegerAttr>(i, "anabranch.writes"))
      mutated |= input.getInt() == number;
  b.create<ir::InputOp>(
      argument.getLoc(), name, dtype, shape,
      isScalar ? ArrayAttr()
               : buffers.sizesAttr(stridesOfArgument(main, number)),
      b.getDenseI64ArrayAttr(defines), scalarSlot,
      mutated ? b.getUnitAttr() : UnitAttr());
}

void ProgramBuilder::buildInputs() {
  for (BlockArgument argument : main.getArguments())
    if (!constantName(main, argument.getArgNumber()))
      buildInput(argument);
  for (auto expect : main.getOps<ir::ExpectOp>())
    if (!expect.getSame()) {
      auto limit = b.create<ir::LimitOp>(
          expect.getLoc(), sizes.get(expect.getSize()),
          expect.getMin().value_or(0), expect.getMax().value_or(INT64_MAX));
      if (Attribute message = expect->getAttr(ir::checkMessageAttr))
        limit->setAttr(ir::checkMessageAttr, message);
    }
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

LogicalResult ProgramBuilder::buildOutput(unsigned number, Value value) {
  StringRef kind = "tensor";
  Value buffer;
  IntegerAttr input;
  Attribute scalar;
  auto argument = dyn_cast<BlockArgument>(value);
  bool isTensor = isa<RankedTensorType>(value.getType());
  if (main.getResultAttr(number, "anabranch.none")) {
    kind = "none";
  } else if (!isTensor) {
    kind = "scalar";
    scalar = sizes.get(value);
    if (!scalar)
      return failure();
  } else if (argument && !constantName(main, argument.getArgNumber()) &&
             !isInRegion(main)) {
    kind = "alias";
    input = b.getI64IntegerAttr(buffers.inputNumber(argument.getArgNumber()));
  } else if (value.getDefiningOp<ir::AtenOp>() && ir::memoryNumber(value) < 0 &&
             !llvm::is_contained(placement.copies(), number)) {
    kind = "external";
    buffer = buffers.of(value);
  } else {
    buffer = buffers.ofOutput(number, value);
  }
  b.setInsertionPointToEnd(&program.getBody().front());
  b.create<ir::OutputOp>(value.getLoc(), b.getStringAttr(kind), buffer, input,
                         scalar);
  return success(!buffers.failed());
}

LogicalResult ProgramBuilder::buildOutputs() {
  Operation *terminator = main.getBody().front().getTerminator();
  for (auto [number, value] : llvm::enumerate(terminator->getOperands()))
    if (buffers.outputNumber(number) >= 0 && failed(buildOutput(number, value)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

LogicalResult ProgramBuilder::buildStreams() {
  auto add = [&](StringRef name, UnitAttr initialize) {
    auto stream = b.create<ir::StreamOp>(main.getLoc(), b.getStringAttr(name),
                                         b.getI64IntegerAttr(0), initialize);
    stream.getBody().emplaceBlock();
    return stream;
  };
  ir::StreamOp initialize = add("load", b.getUnitAttr());
  ir::StreamOp stream = add("main", UnitAttr());
  buffers.declareBefore(initialize);
  if (failed(CommandBuilder(main, sizes, overwrites, placement, buffers)
                 .build(initialize, stream)) ||
      failed(buildOutputs()))
    return failure();
  if (initialize.getBody().front().empty())
    initialize.erase();
  return success();
}

LogicalResult ProgramBuilder::build() {
  Location loc = main.getLoc();
  b.setInsertionPointToEnd(module.getBody());
  auto name = module->getAttrOfType<StringAttr>("anabranch.name");
  program = b.create<ir::ProgramOp>(
      loc, name ? name : b.getStringAttr("main"), b.getI64IntegerAttr(0),
      FlatSymbolRefAttr(), Attribute(), Attribute(), b.getI64IntegerAttr(0),
      ArrayAttr(), ArrayAttr());
  if (module->hasAttr(regionAttr))
    program->setAttr(regionAttr, b.getUnitAttr());
  b.setInsertionPointToEnd(&program.getBody().emplaceBlock());
  buildInputs();
  if (buffers.failed() || failed(buildStreams()))
    return failure();
  program.setSlots(sizes.slotCount());
  if (func::FuncOp function = sizes.function())
    program.setSizesFunctionAttr(
        FlatSymbolRefAttr::get(function.getSymNameAttr()));
  main.erase();
  return success();
}

LogicalResult buildProgram(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isDeclaration())
    return emitError(module.getLoc(), "there is no function @main");
  return ProgramBuilder(main).build();
}

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createBuildProgramPass() {
  return ir::makePass<ModuleOp, ir::AnabranchDialect, LLVM::LLVMDialect>(
      "anabranch-build-program",
      "turns the dispatches of @main into kernels and a program",
      schedule::buildProgram);
}

} // namespace anabranch
