//===- BuildProgram.cpp - @main becomes kernels and a program -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Level "dispatch" to level "program": every tensor becomes a buffer, every
// dispatch a kernel function and a launch, every `anabranch.aten` a call, index
// arithmetic the sizes function. One stream holds the commands in the order of
// @main; where buffers lie in the arena is decided later.
//
//===----------------------------------------------------------------------===//

#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "schedule/KernelTable.h"
#include "schedule/Layouts.h"
#include "schedule/OpKinds.h"
#include "schedule/Passes.h"
#include "schedule/Placement.h"
#include "schedule/SizeTable.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// Bytes that buffers of one or several shapes name.
struct Memory {
  StringRef kind;
  int64_t number = 0;
  std::optional<int64_t> index; // of an input or output
  StringAttr name;              // of a constant
};

class ProgramBuilder {
public:
  explicit ProgramBuilder(func::FuncOp main)
      : main(main), module(main->getParentOfType<ModuleOp>()),
        context(main.getContext()), sizes(main), kernels(module),
        placement(main), arith(main), b(context) {
    Block &block = main.getBody().front();
    arith.setInsertionPoint(block.getTerminator());
  }

  LogicalResult build();

private:
  void buildInputs();
  void buildInput(BlockArgument argument);
  LogicalResult buildEarlyCopies(SmallVectorImpl<unsigned> &late);
  LogicalResult buildCommands();
  LogicalResult buildLaunch(ir::DispatchOp dispatch);
  LogicalResult buildCall(ir::AtenOp call);
  LogicalResult buildCopy(unsigned number);
  LogicalResult buildOutputs();
  LogicalResult buildOutput(unsigned number, Value value);

  Attribute argumentOf(ir::AtenOp call, Attribute argument,
                       SmallVectorImpl<Value> &reads);
  Value outputBuffer(unsigned number, Value value);
  Value inputBuffer(unsigned argument);
  void placeResult(Value result, StringRef otherwise);
  void keepForReshapes(Value result, Value source);

  /// The memory that holds the bytes of a tensor of @main.
  Memory &memoryOf(Value value);
  Memory newMemory(StringRef kind, std::optional<int64_t> index = {},
                   StringAttr name = {});
  /// The buffer with this tensor's shape over its memory.
  Value bufferOf(Value value, StringRef dtype = {});
  Value createBuffer(const Memory &memory, Location loc, StringRef dtype,
                     ArrayAttr shape, ArrayAttr strides = {});
  llvm::StringRef dtypeBehind(Value value);
  ArrayAttr shapeOf(Value value);
  ArrayAttr sizesAttr(DenseI64ArrayAttr strides);

  func::FuncOp main;
  ModuleOp module;
  MLIRContext *context;
  SizeTable sizes;
  KernelTable kernels;
  Placement placement;
  OpBuilder arith; // index arithmetic in @main
  OpBuilder b;
  ir::ProgramOp program;
  ir::StreamOp initialize, stream;
  bool failedSizes = false;

  DenseMap<Value, Memory> memories;
  DenseMap<Value, Memory> reshaped; // copies of calls' results, to be reshaped
  DenseMap<std::tuple<int64_t, Attribute, Attribute, Attribute>, Value> buffers;
  DenseMap<unsigned, int64_t> inputNumbers; // argument -> program input
  DenseMap<unsigned, Value> outputBuffers;  // result of @main -> buffer
  DenseMap<unsigned, Memory> outputMemories, inputMemories;
  DenseMap<unsigned, Value> keptValues; // old values of inputs, by result
  SmallVector<int64_t> outputNumbers;   // result of @main -> program output
  int64_t memoryCount = 0;
};

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Memory ProgramBuilder::newMemory(StringRef kind, std::optional<int64_t> index,
                                 StringAttr name) {
  return {kind, memoryCount++, index, name};
}

ArrayAttr ProgramBuilder::sizesAttr(DenseI64ArrayAttr strides) {
  return strides ? b.getI64ArrayAttr(strides.asArrayRef()) : ArrayAttr();
}

ArrayAttr ProgramBuilder::shapeOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto argument = dyn_cast<BlockArgument>(value);
  SmallVector<Attribute> shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    Attribute size =
        argument ? sizes.dimOf(argument, dim)
                 : sizes.get(ir::sizeOf(arith, value.getLoc(), value, dim));
    failedSizes |= !size;
    shape.push_back(size ? size : sizes.literal(0));
  }
  return b.getArrayAttr(shape);
}

Value ProgramBuilder::createBuffer(const Memory &memory, Location loc,
                                   StringRef dtype, ArrayAttr shape,
                                   ArrayAttr strides) {
  StringAttr dtypeAttr = b.getStringAttr(dtype);
  Value &buffer = buffers[{memory.number, dtypeAttr, shape, strides}];
  if (buffer)
    return buffer;
  // The bytes from the first element to the last: strides may leave holes.
  Attribute bytes = sizes.literal(dtypeBytes(dtype));
  if (strides) {
    int64_t last = 0;
    for (auto [size, stride] : llvm::zip(shape, strides)) {
      auto count = dyn_cast<IntegerAttr>(size);
      int64_t steps = count ? std::max<int64_t>(count.getInt(), 1) - 1 : 0;
      last += steps * cast<IntegerAttr>(stride).getInt();
    }
    bytes = sizes.literal((last + 1) * dtypeBytes(dtype));
  } else {
    // Literals first, so that they fold into one factor.
    for (bool literal : {true, false})
      for (Attribute size : shape)
        if (isa<IntegerAttr>(size) == literal)
          bytes = sizes.multiply(bytes, size);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(initialize);
  auto op = b.create<ir::BufferOp>(
      loc, ir::BufferType::get(context), b.getStringAttr(memory.kind),
      b.getI64IntegerAttr(memory.number), dtypeAttr, shape, strides, bytes,
      memory.index ? b.getI64IntegerAttr(*memory.index) : IntegerAttr(),
      memory.name, IntegerAttr(), IntegerAttr(), Attribute());
  return buffer = op.getResult();
}

/// The dtype of a tensor; an argument says whether its integers have a sign,
/// and what reshapes it has the same bytes.
StringRef ProgramBuilder::dtypeBehind(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(bytesBehind(value)))
    if (auto type = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      "anabranch.dtype"))
      return type.getValue();
  return dtypeName(getElementTypeOrSelf(value.getType()));
}

Value ProgramBuilder::inputBuffer(unsigned argument) {
  BlockArgument value = main.getArgument(argument);
  StringRef dtype = dtypeBehind(value);
  Memory &memory = memoryOf(value);
  return createBuffer(memory, value.getLoc(), dtype, shapeOf(value),
                      sizesAttr(stridesOfArgument(main, argument)));
}

Memory &ProgramBuilder::memoryOf(Value value) {
  value = bytesBehind(value);
  auto found = memories.find(value);
  if (found != memories.end())
    return found->second;
  auto argument = cast<BlockArgument>(value);
  unsigned number = argument.getArgNumber();
  StringAttr name = constantName(main, number);
  Memory memory = name ? newMemory("constant", {}, name)
                       : newMemory("input", inputNumbers.lookup(number));
  return memories.try_emplace(value, memory).first->second;
}

Value ProgramBuilder::bufferOf(Value value, StringRef dtype) {
  Memory memory = memoryOf(value);
  auto kept = reshaped.find(bytesBehind(value));
  if (kept != reshaped.end() && bytesBehind(value) != value)
    memory = kept->second;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return inputBuffer(argument.getArgNumber());
  const Place *place = placement.find(bytesBehind(value));
  if (dtype.empty())
    dtype = dtypeBehind(value);
  return createBuffer(memory, value.getLoc(), dtype, shapeOf(value),
                      place ? sizesAttr(place->strides) : ArrayAttr());
}

/// Gives a kernel's or call's result its memory.
void ProgramBuilder::placeResult(Value result, StringRef otherwise) {
  const Place *place = placement.find(result);
  if (!place)
    memories[result] = newMemory(otherwise);
  else if (place->kind == Place::Input)
    memories[result] = memoryOf(main.getArgument(place->index));
  else
    memories[result] = outputMemories[place->index] =
        newMemory("output", outputNumbers[place->index]);
}

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
  ArrayAttr shape = isScalar ? b.getArrayAttr({}) : shapeOf(argument);
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
  b.create<ir::InputOp>(argument.getLoc(), name, dtype, shape,
                        isScalar ? ArrayAttr()
                                 : sizesAttr(stridesOfArgument(main, number)),
                        b.getDenseI64ArrayAttr(defines), scalarSlot,
                        mutated ? b.getUnitAttr() : UnitAttr());
}

void ProgramBuilder::buildInputs() {
  for (BlockArgument argument : main.getArguments()) {
    if (constantName(main, argument.getArgNumber()))
      continue;
    inputNumbers[argument.getArgNumber()] = inputNumbers.size();
    buildInput(argument);
  }
  for (auto expect : main.getOps<ir::ExpectOp>())
    if (!expect.getSame())
      b.create<ir::LimitOp>(expect.getLoc(), sizes.get(expect.getSize()),
                            expect.getMin().value_or(0),
                            expect.getMax().value_or(INT64_MAX));
  int64_t outputs = 0;
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    outputNumbers.push_back(
        main.getResultAttr(i, "anabranch.writes") ? -1 : outputs++);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

LogicalResult ProgramBuilder::buildLaunch(ir::DispatchOp dispatch) {
  bool atLoad = dispatch->hasAttr("initialize");
  KernelLayout layout;
  SmallVector<Attribute> launchSizes;
  SmallVector<Value> reads, writes;
  auto addDims = [&](Value value) {
    ArrayAttr shape = shapeOf(value);
    auto type = cast<RankedTensorType>(value.getType());
    for (auto [dim, size] : llvm::enumerate(shape))
      if (type.isDynamicDim(dim))
        launchSizes.push_back(size);
  };
  for (Value input : dispatch.getInputs()) {
    auto argument = dyn_cast<BlockArgument>(input);
    layout.inputStrides.push_back(
        argument ? stridesOfArgument(main, argument.getArgNumber())
                 : DenseI64ArrayAttr());
    reads.push_back(bufferOf(input));
    addDims(input);
  }
  for (Value result : dispatch.getResults()) {
    placeResult(result, atLoad ? "persistent" : "arena");
    const Place *place = placement.find(result);
    layout.resultStrides.push_back(place ? place->strides
                                         : DenseI64ArrayAttr());
    layout.inPlace.push_back(place ? place->inPlace : -1);
    auto written = place && place->kind == Place::Input
                       ? inputBuffer(place->index)
                       : bufferOf(result);
    writes.push_back(written);
    addDims(result);
  }
  for (Value index : dispatch.getIndices()) {
    Attribute size = sizes.get(index);
    if (!size)
      return failure();
    launchSizes.push_back(size);
  }
  if (failedSizes)
    return failure();
  func::FuncOp kernel = kernels.getOrCreate(dispatch, layout);
  b.setInsertionPointToEnd(&(atLoad ? initialize : stream).getBody().front());
  b.create<ir::LaunchOp>(dispatch.getLoc(),
                         FlatSymbolRefAttr::get(kernel.getSymNameAttr()), reads,
                         writes, b.getArrayAttr(launchSizes));
  return success();
}

/// An argument of a call in terms of buffers and slots; null when it is none.
Attribute ProgramBuilder::argumentOf(ir::AtenOp call, Attribute argument,
                                     SmallVectorImpl<Value> &reads) {
  if (auto list = dyn_cast<ArrayAttr>(argument)) {
    SmallVector<Attribute> elements;
    for (Attribute element : list) {
      elements.push_back(argumentOf(call, element, reads));
      if (!elements.back())
        return {};
    }
    return b.getArrayAttr(elements);
  }
  auto ref = dyn_cast<ir::OperandRefAttr>(argument);
  if (!ref)
    return argument;
  Value operand = call.getInputs()[ref.getIndex()];
  if (operand.getType().isIndex())
    return sizes.get(operand);
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  if (!type) {
    call.emitOpError("takes an operand that is no tensor and no size");
    return {};
  }
  reads.push_back(bufferOf(
      operand, dtypeName(type.getElementType(), call.isUnsigned(operand))));
  return ir::OperandRefAttr::get(context, reads.size() - 1);
}

/// What a call makes has one shape in the program, because its memory is known
/// at run time only. Reshapes read a copy.
void ProgramBuilder::keepForReshapes(Value result, Value source) {
  if (llvm::none_of(result.getUsers(), isReshape))
    return;
  auto buffer = source.getDefiningOp<ir::BufferOp>();
  Memory memory = newMemory("arena");
  Value kept = createBuffer(memory, result.getLoc(), buffer.getDtype(),
                            buffer.getShape());
  b.setInsertionPointToEnd(&stream.getBody().front());
  b.create<ir::CopyOp>(result.getLoc(), source, kept);
  reshaped[result] = memory;
}

LogicalResult ProgramBuilder::buildCall(ir::AtenOp call) {
  SmallVector<Value> reads, writes;
  SmallVector<Attribute> names, arguments;
  for (NamedAttribute argument : call.getArgs()) {
    names.push_back(argument.getName());
    arguments.push_back(argumentOf(call, argument.getValue(), reads));
    if (!arguments.back())
      return failure();
  }
  SmallVector<int64_t> wanted;
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      return call.emitOpError("returns what is no tensor");
    placeResult(result, "external");
    wanted.push_back(writes.size());
    writes.push_back(bufferOf(
        result, dtypeName(type.getElementType(), call.isUnsignedResult(i))));
  }
  if (failedSizes)
    return failure();
  b.setInsertionPointToEnd(&stream.getBody().front());
  b.create<ir::CallOp>(call.getLoc(), call.getCallee(), reads, writes,
                       b.getArrayAttr(names), b.getArrayAttr(arguments),
                       b.getDenseI64ArrayAttr(wanted));
  for (auto [result, buffer] : llvm::zip(call.getResults(), writes))
    keepForReshapes(result, buffer);
  return success(!failedSizes);
}

Value ProgramBuilder::outputBuffer(unsigned number, Value value) {
  auto dtype = main.getResultAttrOfType<StringAttr>(number, "anabranch.dtype");
  auto strides =
      main.getResultAttrOfType<DenseI64ArrayAttr>(number, "anabranch.strides");
  if (strides && llvm::is_contained(strides.asArrayRef(), ShapedType::kDynamic))
    strides = {}; // the caller views the contiguous tensor as it likes
  auto memory = outputMemories.find(number);
  if (memory == outputMemories.end())
    memory =
        outputMemories
            .try_emplace(number, newMemory("output", outputNumbers[number]))
            .first;
  return createBuffer(memory->second, value.getLoc(),
                      dtype ? dtype.getValue()
                            : dtypeName(getElementTypeOrSelf(value.getType())),
                      shapeOf(value), sizesAttr(strides));
}

/// Copies a result of @main to where the caller wants it.
LogicalResult ProgramBuilder::buildCopy(unsigned number) {
  Value value = main.getBody().front().getTerminator()->getOperand(number);
  auto input =
      main.getResultAttrOfType<IntegerAttr>(number, "anabranch.writes");
  Value destination =
      input ? inputBuffer(input.getInt()) : outputBuffer(number, value);
  auto dtype = destination.getDefiningOp<ir::BufferOp>().getDtype();
  Value source = keptValues.lookup(number);
  if (!source)
    source = bufferOf(value, dtype);
  b.setInsertionPointToEnd(&stream.getBody().front());
  b.create<ir::CopyOp>(value.getLoc(), source, destination);
  return success(!failedSizes);
}

/// Copies of arguments come first, while mutated ones have their old value;
/// what is written into other inputs in the end is kept until then.
LogicalResult
ProgramBuilder::buildEarlyCopies(SmallVectorImpl<unsigned> &late) {
  Operation *terminator = main.getBody().front().getTerminator();
  for (unsigned number : placement.copies()) {
    Value value = terminator->getOperand(number);
    if (!isa<BlockArgument>(bytesBehind(value))) {
      late.push_back(number);
    } else if (!main.getResultAttr(number, "anabranch.writes")) {
      if (failed(buildCopy(number)))
        return failure();
    } else {
      late.push_back(number);
      Value source = bufferOf(value);
      auto buffer = source.getDefiningOp<ir::BufferOp>();
      Value kept = createBuffer(newMemory("arena"), value.getLoc(),
                                buffer.getDtype(), buffer.getShape());
      b.setInsertionPointToEnd(&stream.getBody().front());
      b.create<ir::CopyOp>(value.getLoc(), source, kept);
      keptValues[number] = kept;
    }
  }
  return success();
}

LogicalResult ProgramBuilder::buildCommands() {
  SmallVector<unsigned> late;
  if (failed(buildEarlyCopies(late)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(
           main.getBody().front().without_terminator())) {
    auto dispatch = dyn_cast<ir::DispatchOp>(op);
    if (dispatch && failed(buildLaunch(dispatch)))
      return failure();
    auto call = dyn_cast<ir::AtenOp>(op);
    if (call && failed(buildCall(call)))
      return failure();
  }
  for (unsigned number : late)
    if (failed(buildCopy(number)))
      return failure();
  return success();
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
  } else if (argument && !constantName(main, argument.getArgNumber())) {
    kind = "alias";
    input = b.getI64IntegerAttr(inputNumbers.lookup(argument.getArgNumber()));
  } else if (value.getDefiningOp<ir::AtenOp>() &&
             !llvm::is_contained(placement.copies(), number)) {
    kind = "external";
    auto dtype =
        main.getResultAttrOfType<StringAttr>(number, "anabranch.dtype");
    buffer = bufferOf(value, dtype ? dtype.getValue() : StringRef());
  } else {
    buffer = outputBuffer(number, value);
  }
  b.setInsertionPointToEnd(&program.getBody().front());
  b.create<ir::OutputOp>(value.getLoc(), b.getStringAttr(kind), buffer, input,
                         scalar);
  return success(!failedSizes);
}

LogicalResult ProgramBuilder::buildOutputs() {
  Operation *terminator = main.getBody().front().getTerminator();
  for (auto [number, value] : llvm::enumerate(terminator->getOperands()))
    if (outputNumbers[number] >= 0 && failed(buildOutput(number, value)))
      return failure();
  return success();
}

LogicalResult ProgramBuilder::build() {
  Location loc = main.getLoc();
  b.setInsertionPointToEnd(module.getBody());
  auto name = module->getAttrOfType<StringAttr>("anabranch.name");
  program = b.create<ir::ProgramOp>(
      loc, name ? name : b.getStringAttr("main"), b.getI64IntegerAttr(0),
      FlatSymbolRefAttr(), Attribute(), Attribute(), b.getI64IntegerAttr(0));
  b.setInsertionPointToEnd(&program.getBody().emplaceBlock());
  buildInputs();
  initialize = b.create<ir::StreamOp>(loc, b.getStringAttr("load"),
                                      b.getI64IntegerAttr(0), b.getUnitAttr());
  initialize.getBody().emplaceBlock();
  stream = b.create<ir::StreamOp>(loc, b.getStringAttr("main"),
                                  b.getI64IntegerAttr(0), UnitAttr());
  stream.getBody().emplaceBlock();
  if (failedSizes || failed(buildCommands()) || failed(buildOutputs()))
    return failure();
  if (initialize.getBody().front().empty())
    initialize.erase();
  program.setSlots(sizes.slotCount());
  if (func::FuncOp function = sizes.function())
    program.setSizesFunctionAttr(
        FlatSymbolRefAttr::get(function.getSymNameAttr()));
  main.erase();
  return success();
}

struct BuildProgramPass
    : PassWrapper<BuildProgramPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BuildProgramPass)

  StringRef getArgument() const final { return "anabranch-build-program"; }
  StringRef getDescription() const final {
    return "turns the dispatches of @main into kernels and a program";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<ir::AnabranchDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isDeclaration()) {
      emitError(getOperation().getLoc(), "there is no function @main");
      return signalPassFailure();
    }
    if (failed(ProgramBuilder(main).build()))
      signalPassFailure();
  }
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createBuildProgramPass() {
  return std::make_unique<schedule::BuildProgramPass>();
}

} // namespace anabranch
