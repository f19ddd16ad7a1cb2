//===- CommandBuilder.cpp - the program's commands ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/CommandBuilder.h"

#include "ir/ResultDims.h"
#include "ir/Scope.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/program/InPlace.h"
#include "schedule/program/RegionCall.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

CommandBuilder::CommandBuilder(func::FuncOp main, SizeTable &sizes,
                               const Overwrites &overwrites,
                               const Placement &placement, BufferTable &buffers)
    : main(main), sizes(sizes), overwrites(overwrites), placement(placement),
      buffers(buffers), kernels(main->getParentOfType<ModuleOp>()),
      b(main.getContext()) {}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void CommandBuilder::addDims(Value value) {
  ArrayAttr shape = buffers.shapeOf(value);
  auto type = cast<RankedTensorType>(value.getType());
  for (auto [dim, size] : llvm::enumerate(shape))
    if (type.isDynamicDim(dim))
      launchSizes.push_back(size);
}

void CommandBuilder::readInput(Value input) {
  auto argument = dyn_cast<BlockArgument>(input);
  layout.inputStrides.push_back(
      argument ? stridesOfArgument(main, argument.getArgNumber())
               : DenseI64ArrayAttr());
  reads.push_back(buffers.of(input));
  addDims(input);
}

/// Gives the result its memory. Returns the input that the result overwrites,
/// or -1.
int64_t CommandBuilder::placeResult(OpResult result) {
  auto dispatch = cast<ir::DispatchOp>(result.getOwner());
  if (const Place *place = placement.find(result)) {
    buffers.place(result, "");
    return place->inPlace;
  }
  int64_t dying = findDyingInput(result);
  if (dying >= 0 && !llvm::is_contained(layout.inPlace, dying) &&
      buffers.placeOver(result, dispatch.getInputs()[dying]))
    return dying;
  buffers.place(result,
                dispatch->hasAttr("initialize") ? "persistent" : "arena");
  return -1;
}

void CommandBuilder::writeResult(OpResult result) {
  layout.inPlace.push_back(placeResult(result));
  const Place *place = placement.find(result);
  layout.resultStrides.push_back(place ? place->strides : DenseI64ArrayAttr());
  bool isInput = place && place->kind == Place::Input &&
                 main.getArgument(place->index).getType() == result.getType();
  writes.push_back(isInput ? buffers.ofInput(place->index)
                           : buffers.of(result));
  addDims(result);
}

LogicalResult CommandBuilder::buildLaunch(ir::DispatchOp dispatch) {
  bool atLoad = dispatch->hasAttr("initialize");
  layout = {};
  launchSizes.clear();
  reads.clear();
  writes.clear();
  for (Value input : dispatch.getInputs())
    readInput(input);
  for (OpResult result : dispatch->getResults())
    writeResult(result);
  for (Value index : dispatch.getIndices()) {
    Attribute size = sizes.get(index);
    if (!size)
      return failure();
    launchSizes.push_back(size);
  }
  if (buffers.failed())
    return failure();
  func::FuncOp kernel = kernels.getOrCreate(dispatch, layout);
  b.setInsertionPointToEnd(&(atLoad ? initialize : stream).getBody().front());
  auto launch = b.create<ir::LaunchOp>(
      dispatch.getLoc(), FlatSymbolRefAttr::get(kernel.getSymNameAttr()), reads,
      writes, b.getArrayAttr(launchSizes), IntegerAttr());
  ir::copyOrder(dispatch, launch);
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Whether the call's operand became an argument with strides in place of
/// another operator's result (NormalizeAten.cpp).
bool CommandBuilder::isFoldedToStrided(ir::AtenOp call, unsigned operand) {
  auto made = call->getAttrOfType<DenseI64ArrayAttr>("anabranch.made");
  auto argument = dyn_cast<BlockArgument>(call.getInputs()[operand]);
  return made && argument && llvm::is_contained(made.asArrayRef(), operand) &&
         stridesOfArgument(main, argument.getArgNumber());
}

/// An argument of a call in terms of buffers and slots; null if it has no such
/// form.
Attribute CommandBuilder::argumentOf(ir::AtenOp call, Attribute argument) {
  if (auto list = dyn_cast<ArrayAttr>(argument)) {
    SmallVector<Attribute> elements;
    for (Attribute element : list) {
      elements.push_back(argumentOf(call, element));
      if (!elements.back())
        return {};
    }
    return b.getArrayAttr(elements);
  }
  if (auto written = dyn_cast<DictionaryAttr>(argument)) {
    NamedAttrList entries;
    for (NamedAttribute entry : written) {
      entries.set(entry.getName(), argumentOf(call, entry.getValue()));
      if (!entries.get(entry.getName()))
        return {};
    }
    return entries.getDictionary(b.getContext());
  }
  auto ref = dyn_cast<ir::OperandRefAttr>(argument);
  if (!ref)
    return argument;
  Value operand = call.getInputs()[ref.getIndex()];
  if (operand.getType().isIndex())
    return sizes.get(operand);
  if (operand.getType().isF64()) {
    auto slot = dyn_cast_or_null<ir::SlotAttr>(sizes.get(operand));
    return slot ? ir::RealSlotAttr::get(b.getContext(), slot.getIndex())
                : Attribute();
  }
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  if (!type) {
    call.emitOpError("takes an operand that is no tensor and no size");
    return {};
  }
  Value buffer = buffers.of(
      operand, dtypeName(type.getElementType(), call.isUnsigned(operand)));
  if (isFoldedToStrided(call, ref.getIndex()) ||
      (isRegionCall(call) &&
       buffer.getDefiningOp<ir::BufferOp>().getStridesAttr())) {
    Value kept = buffers.copyOf(buffer, call.getLoc());
    copy(operand, buffer, kept);
    buffer = kept;
  }
  reads.push_back(buffer);
  return ir::OperandRefAttr::get(b.getContext(), reads.size() - 1);
}

/// Whether a user reads a call's result as another dtype of the same width.
static bool isReinterpreted(OpResult result) {
  StringRef dtype = dtypeOfCall(result);
  Type element = getElementTypeOrSelf(result.getType());
  auto readsAnother = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<ir::AtenOp>(user))
      return dtypeName(element, call.isUnsigned(result)) != dtype;
    auto main = dyn_cast<func::FuncOp>(user->getParentOp());
    return main && user->hasTrait<OpTrait::IsTerminator>() &&
           dtypeOfOutput(main, use.getOperandNumber()) != dtype;
  };
  return llvm::any_of(result.getUses(), readsAnother);
}

/// Whether a reader cannot take the memory of a call's result as it is. The
/// memory of a returned value is known only at run time, so it has one shape
/// and one dtype in the program. Kernels read new values as contiguous.
bool CommandBuilder::isReadOtherwise(OpResult result) {
  if (ir::memoryNumber(result) < 0)
    return llvm::any_of(result.getUsers(), isReshape) ||
           isReinterpreted(result);
  return buffers.isStrided(result) &&
         llvm::any_of(result.getUsers(), [](Operation *user) {
           return isReshape(user) || isa<ir::DispatchOp>(user);
         });
}

void CommandBuilder::keepForOthers(OpResult result, Value buffer) {
  if (!isReadOtherwise(result))
    return;
  Value kept = buffers.copyOf(buffer, result.getLoc());
  copy(result, buffer, kept);
  buffers.readFrom(result, kept);
}

/// Trips of a loop write the carried values and spare buffers in turns, unless
/// they update a value, and the condition writes a bool. `writes` lists them
/// after the results.
void CommandBuilder::addSpare(ir::AtenOp loop) {
  auto carried = loop.getArgs().getAs<ArrayAttr>("carried");
  size_t updated = ir::newValues(loop).size();
  size_t made = carried ? carried.size() - updated : 0;
  for (size_t i = updated; i < updated + made; ++i)
    writes.push_back(buffers.copyOf(writes[i], loop.getLoc()));
  if (loop.getArgs().getAs<IntegerAttr>("condition"))
    writes.push_back(buffers.flag(loop.getLoc()));
}

/// Gives each memory that the operator writes its place. If the old value is
/// needed elsewhere, the memory is a copy.
void CommandBuilder::prepareWrites(ir::AtenOp call) {
  for (OpResult value : ir::newValues(call)) {
    Value old = ir::oldValue(value);
    if (overwrites.isInPlace(value))
      buffers.placeInPlace(value, old);
    else
      buffers.placeApart(value);
    Value memory = buffers.ofNewValue(value);
    if (old && !overwrites.isInPlace(value))
      copy(call.getLoc(), call,
           buffers.of(old, memory.getDefiningOp<ir::BufferOp>().getDtype()),
           memory);
    if (old)
      reads.push_back(memory);
    writes.push_back(memory);
  }
}

/// The buffers of what the operator returns: for each value its number among
/// the writes, or -1.
SmallVector<int64_t> CommandBuilder::placeReturned(ir::AtenOp call) {
  bool isRegion = isRegionCall(call);
  SmallVector<int64_t> wanted;
  for (OpResult result : ir::returnedValues(call)) {
    // PyTorch may leave a result without readers undefined, such as a
    // gradient. A region writes all its results, into the program's memory if
    // their sizes are known.
    if (result.use_empty() && !isRegion) {
      wanted.push_back(-1);
      continue;
    }
    buffers.place(result,
                  isRegion && !ir::isRunSized(result) ? "arena" : "external");
    wanted.push_back(writes.size());
    writes.push_back(buffers.of(result));
  }
  return wanted;
}

LogicalResult
CommandBuilder::buildArguments(ir::AtenOp call,
                               SmallVectorImpl<Attribute> &names,
                               SmallVectorImpl<Attribute> &arguments) {
  for (NamedAttribute argument : call.getArgs()) {
    names.push_back(argument.getName());
    arguments.push_back(argumentOf(call, argument.getValue()));
    if (!arguments.back())
      return failure();
  }
  return success();
}

LogicalResult CommandBuilder::buildCall(ir::AtenOp call) {
  reads.clear();
  writes.clear();
  for (Type type : call.getResultTypes())
    if (!isa<RankedTensorType>(type))
      return call.emitOpError("returns a value that is no tensor");
  prepareWrites(call);
  SmallVector<Attribute> names, arguments;
  if (failed(buildArguments(call, names, arguments)))
    return failure();
  SmallVector<int64_t> wanted = placeReturned(call);
  if (buffers.failed())
    return failure();
  if (call.getCallee() == loopCallee)
    addSpare(call);
  b.setInsertionPointToEnd(&stream.getBody().front());
  auto made = b.create<ir::CallOp>(
      call.getLoc(), call.getCalleeAttr(), reads, writes, b.getArrayAttr(names),
      b.getArrayAttr(arguments), b.getDenseI64ArrayAttr(wanted),
      call.getOrderedAttr());
  ir::copyOrder(call, made);
  for (auto [result, number] : llvm::zip(ir::returnedValues(call), wanted))
    if (number >= 0 && !isRegionCall(call))
      keepForOthers(result, made.getWrites()[number]);
  for (auto [value, memory] : llvm::zip(ir::newValues(call), made.getWrites()))
    keepForOthers(value, memory);
  return success(!buffers.failed());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Copies a tensor of @main, on the stream of the command that makes it.
void CommandBuilder::copy(Value value, Value source, Value destination) {
  copy(value.getLoc(), lookThroughReshapes(value).getDefiningOp(), source,
       destination);
}

void CommandBuilder::copy(Location loc, Operation *streamOf, Value source,
                          Value destination) {
  b.setInsertionPointToEnd(&stream.getBody().front());
  auto made = b.create<ir::CopyOp>(loc, source, destination);
  if (streamOf)
    ir::setScope(made, ir::scopeOf(streamOf));
}

/// Copies a result of @main to the memory that the caller gives.
LogicalResult CommandBuilder::buildCopy(unsigned number) {
  Value value = main.getBody().front().getTerminator()->getOperand(number);
  auto input =
      main.getResultAttrOfType<IntegerAttr>(number, "anabranch.writes");
  Value destination =
      input ? buffers.ofInput(input.getInt()) : buffers.ofOutput(number, value);
  auto dtype = destination.getDefiningOp<ir::BufferOp>().getDtype();
  Value source = keptValues.lookup(number);
  if (!source)
    source = buffers.of(value, dtype);
  copy(value, source, destination);
  return success(!buffers.failed());
}

/// Keeps a copy of a value that lies in the memory of an input.
void CommandBuilder::keepValue(unsigned number, Value value) {
  Value source = buffers.of(value);
  Value kept = buffers.copyOf(source, value.getLoc());
  copy(value, source, kept);
  keptValues[number] = kept;
}

/// Copies of arguments come first, while an argument that the program updates
/// has its old value. Such a copy is kept until it is written into another
/// input at the end.
LogicalResult
CommandBuilder::buildEarlyCopies(SmallVectorImpl<unsigned> &late) {
  Operation *terminator = main.getBody().front().getTerminator();
  for (unsigned number : placement.copies()) {
    Value value = terminator->getOperand(number);
    if (!isa<BlockArgument>(lookThroughReshapes(value))) {
      late.push_back(number);
    } else if (!main.getResultAttr(number, "anabranch.writes")) {
      if (failed(buildCopy(number)))
        return failure();
    } else {
      late.push_back(number);
      keepValue(number, value);
    }
  }
  return success();
}

/// Copies at the end. Values that an operator left in the memory of an input
/// are read before the inputs get their last values.
LogicalResult CommandBuilder::buildLateCopies(ArrayRef<unsigned> late) {
  Operation *terminator = main.getBody().front().getTerminator();
  SmallVector<unsigned> last;
  for (unsigned number : late) {
    Value value = terminator->getOperand(number);
    bool liesInInput = isa<BlockArgument>(overwrites.firstIn(value));
    bool toInput =
        static_cast<bool>(main.getResultAttr(number, "anabranch.writes"));
    if (toInput && liesInInput && !keptValues.count(number))
      keepValue(number, value);
    if (toInput)
      last.push_back(number);
    else if (failed(buildCopy(number)))
      return failure();
  }
  for (unsigned number : last)
    if (failed(buildCopy(number)))
      return failure();
  return success();
}

LogicalResult CommandBuilder::build(ir::StreamOp initialize,
                                    ir::StreamOp stream) {
  this->initialize = initialize;
  this->stream = stream;
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
    if (isa<ir::FenceOp>(op)) {
      b.setInsertionPointToEnd(&stream.getBody().front());
      b.clone(op);
    }
  }
  return buildLateCopies(late);
}

} // namespace schedule
} // namespace anabranch
