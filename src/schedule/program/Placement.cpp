//===- Placement.cpp - where results of @main are written -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/Placement.h"

#include "ir/Explain.h"
#include "ir/ResultDims.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/program/InPlace.h"
#include "schedule/program/RegionCall.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

Placement::Placement(func::FuncOp main, const Overwrites &overwrites)
    : main(main), overwrites(overwrites) {
  Operation *terminator = main.getBody().front().getTerminator();
  auto writesOf = [&](unsigned i) {
    return main.getResultAttrOfType<IntegerAttr>(i, "anabranch.writes");
  };
  // Results that update inputs are placed first: writing in place saves a copy
  // and memory.
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (IntegerAttr input = writesOf(i))
      placeMutation(i, value, input.getInt());
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (!writesOf(i) && isa<RankedTensorType>(value.getType()))
      placeOutput(i, value);
  llvm::sort(copied);
}

static ir::DispatchOp runDispatchOf(Value value) {
  auto dispatch = value.getDefiningOp<ir::DispatchOp>();
  return dispatch && !dispatch->hasAttr("initialize") ? dispatch
                                                      : ir::DispatchOp();
}

/// Whether the program returns the tensor that a call made, without a copy. An
/// output with strides is a copy instead. Many operators give their result the
/// strides of an operand, and the program passes contiguous operands where
/// PyTorch's are often views. Regions write into the memory of their program,
/// except what has a size that only the run knows.
static bool isHandedOver(func::FuncOp main, unsigned number, Value value) {
  if (ir::isRunSized(value))
    return true;
  if (isInRegion(main) || isRegionCall(value.getDefiningOp()))
    return false;
  return value.getDefiningOp<ir::AtenOp>() && ir::memoryNumber(value) < 0 &&
         dtypeOfCall(cast<OpResult>(value)) == dtypeOfOutput(main, number) &&
         llvm::hasSingleElement(llvm::make_filter_range(
             value.getUses(),
             [](OpOperand &use) {
               return use.getOwner()->hasTrait<OpTrait::IsTerminator>();
             }));
}

/// Whether only the program's caller reads the value or its reshapes.
static bool isOnlyReturned(Value value) {
  for (; isReshape(value.getDefiningOp());
       value = value.getDefiningOp()->getOperand(0))
    if (!value.hasOneUse())
      return false;
  return value.hasOneUse();
}

/// The strides of `bytes`, of which `value` is a reshape, where those of
/// `value` are given. Null if the reshape does more than add and drop sizes of
/// one.
static DenseI64ArrayAttr
stridesBeforeReshapes(Value value, DenseI64ArrayAttr strides, Value bytes) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  auto inner = cast<RankedTensorType>(bytes.getType()).getShape();
  SmallVector<int64_t> sizes, steps, found;
  for (auto [size, step] : llvm::zip(shape, strides.asArrayRef()))
    if (size != 1) {
      sizes.push_back(size);
      steps.push_back(step);
    }
  size_t next = 0;
  for (int64_t size : inner) {
    bool isUnit = size == 1;
    if (!isUnit && (next == sizes.size() || sizes[next] != size))
      return {};
    found.push_back(isUnit ? 1 : steps[next++]);
  }
  return next == sizes.size()
             ? DenseI64ArrayAttr::get(value.getContext(), found)
             : DenseI64ArrayAttr();
}

void Placement::placeOutput(unsigned number, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (!constantName(main, argument.getArgNumber()) && !isInRegion(main))
      return; // handed back as it is
  auto strides =
      main.getResultAttrOfType<DenseI64ArrayAttr>(number, "anabranch.strides");
  // An output with symbolic strides is contiguous; the caller makes the strided
  // view.
  if (strides && llvm::is_contained(strides.asArrayRef(), ShapedType::kDynamic))
    strides = {};
  if (!strides && isHandedOver(main, number, value))
    return;
  Value bytes = overwrites.firstIn(value);
  ir::DispatchOp dispatch = runDispatchOf(bytes);
  DenseI64ArrayAttr written;
  if (strides && dispatch && isLoops(dispatch) && isOnlyReturned(value) &&
      bytes == lookThroughReshapes(value))
    written = stridesBeforeReshapes(value, strides, bytes);
  bool isMade =
      dispatch || (ir::memoryNumber(bytes) >= 0 && !ir::stridesOfMemory(bytes));
  if (!isMade || places.count(bytes) || (strides && !written)) {
    copied.push_back(number);
    return;
  }
  Place place{Place::Output, number, written, -1};
  if (dispatch && !written)
    placeChain(chainTo(cast<OpResult>(bytes)), place);
  else
    places[bytes] = place;
}

//===----------------------------------------------------------------------===//
// Writing in place
//===----------------------------------------------------------------------===//

void Placement::placeMutation(unsigned number, Value value,
                              unsigned argumentNumber) {
  BlockArgument argument = main.getArgument(argumentNumber);
  Value first = overwrites.firstIn(value);
  if (value == argument || (first == argument && ir::memoryNumber(value) >= 0))
    return; // unchanged, or written in place
  auto refuse = [&](const Twine &reason) {
    ir::explainRefusal(value.getLoc(), "written in place", reason);
    copied.push_back(number);
  };
  DenseI64ArrayAttr strides = stridesOfArgument(main, argumentNumber);
  if (ir::memoryNumber(value) < 0) // no operator has written it in place
    first = strides ? value : lookThroughReshapes(value);
  ir::DispatchOp dispatch = runDispatchOf(first);
  if (!dispatch)
    return refuse("no kernel makes the new value");
  if (places.count(first))
    return refuse("another result is the same value");
  if (strides && !isLoops(dispatch))
    return refuse("this kind of kernel writes contiguous tensors only");
  if (strides && (first != value || !value.hasOneUse()))
    return refuse("other kernels read the new value as contiguous");
  if (main.getArgAttr(argumentNumber, "anabranch.copy_in"))
    return refuse("the caller hands in a copy");
  SmallVector<OpResult> chain = chainTo(cast<OpResult>(first));
  if (strides)
    chain.truncate(1); // other kernels write contiguous tensors
  // A shorter chain begins with a copy, but may write later.
  StringRef reason;
  for (; !chain.empty(); chain.pop_back()) {
    FailureOr<int64_t> inPlace =
        overwrittenInput(chain.back(), argument, !!strides, reason);
    if (succeeded(inPlace))
      return placeChain(chain,
                        {Place::Input, argumentNumber, strides, *inPlace});
  }
  refuse(reason);
}

/// The kernels' results that lead to `last`, the last first. Each one is the
/// one before it with other parts, and nothing else reads that one.
SmallVector<OpResult> Placement::chainTo(OpResult last) const {
  SmallVector<OpResult> chain{last};
  while (true) {
    int64_t input = changedInput(chain.back());
    if (input < 0)
      return chain;
    auto dispatch = cast<ir::DispatchOp>(chain.back().getOwner());
    chain.push_back(cast<OpResult>(dispatch.getInputs()[input]));
  }
}

/// The kernel's input, another kernel's result, of which the kernel changes
/// parts; -1: none.
int64_t Placement::changedInput(OpResult result) const {
  auto dispatch = cast<ir::DispatchOp>(result.getOwner());
  for (auto [number, input] : llvm::enumerate(dispatch.getInputs()))
    if (runDispatchOf(input) && input.hasOneUse() && !places.count(input) &&
        input.getType() == result.getType() &&
        changesParts(dispatch, number, result.getResultNumber()))
      return number;
  return -1;
}

/// The kernel's input that is the argument's old value, which the result may
/// overwrite; -1: the kernel does not read it. Failure: the result must not lie
/// there.
FailureOr<int64_t> Placement::overwrittenInput(OpResult result,
                                               BlockArgument argument,
                                               bool isStrided,
                                               StringRef &reason) const {
  auto dispatch = cast<ir::DispatchOp>(result.getOwner());
  if (!overwrites.isLastUse(argument, dispatch)) {
    reason = "the old value is read later";
    return failure();
  }
  int64_t inPlace = -1;
  unsigned uses = 0;
  for (auto [i, input] : llvm::enumerate(dispatch.getInputs())) {
    Value bytes = lookThroughReshapes(input);
    // Kernels read a contiguous copy of what an operator wrote with strides.
    if (overwrites.firstIn(bytes) != argument ||
        (isStrided && bytes != argument))
      continue;
    ++uses;
    inPlace =
        input.getType() == result.getType() ? static_cast<int64_t>(i) : -1;
  }
  if (uses > 1 || (uses == 1 && inPlace < 0)) {
    reason = "the kernel reads the old value in several ways";
    return failure();
  }
  if (uses == 1 && !mayOverwrite(dispatch, inPlace, result.getResultNumber())) {
    reason = "the kernel reads the old value at other positions";
    return failure();
  }
  return inPlace;
}

/// Places a chain of results, the last first. `place` is that of the first
/// one; the others overwrite it.
void Placement::placeChain(ArrayRef<OpResult> chain, Place place) {
  for (OpResult result : chain) {
    Place own = place;
    if (result != chain.back())
      own.inPlace = changedInput(result);
    places[result] = own;
  }
}

} // namespace schedule
} // namespace anabranch
