//===- InPlace.cpp - may a result overwrite an operand? -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/InPlace.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/OpKinds.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

//===----------------------------------------------------------------------===//
// Inside the kernel
//===----------------------------------------------------------------------===//

bool isLoops(ir::DispatchOp dispatch) {
  auto kind = dispatch->getAttrOfType<StringAttr>("kind");
  return kind && kind.getValue() == "loops";
}

/// Whether the result reads the input at its own index only, and so does
/// everything that the result is computed from.
static bool readsOwnIndexOnly(BlockArgument input, Value result) {
  SmallVector<Value> work{input};
  llvm::SmallDenseSet<Value, 8> reached;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!reached.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<ir::YieldOp>(user))
        continue;
      auto generic = dyn_cast<linalg::GenericOp>(user);
      if (!generic || generic.getNumParallelLoops() != generic.getNumLoops() ||
          !generic.getMatchingIndexingMap(&use).isIdentity())
        return false;
      for (OpOperand &init : generic.getDpsInitsMutable())
        if (!generic.getMatchingIndexingMap(&init).isIdentity())
          return false;
      llvm::append_range(work, generic.getResults());
    }
  }
  return result != input && reached.contains(result);
}

/// Whether the input is only the tensor that slices or updates are written
/// into.
static bool isOnlyWrittenInto(BlockArgument input, Value result) {
  Value value = input;
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (isa<ir::YieldOp>(user))
      return value == result && value != input;
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(user)) {
      if (&use != &insert.getDestMutable())
        return false;
      value = insert.getResult();
    } else if (auto scatter = dyn_cast<ir::ScatterOp>(user)) {
      if (use.get() != scatter.getInit() || use.get() == scatter.getUpdates())
        return false;
      value = scatter.getResult();
    } else {
      return false;
    }
  }
  return false;
}

bool changesParts(ir::DispatchOp dispatch, unsigned input, unsigned result) {
  Block &body = dispatch.getBody().front();
  return isOnlyWrittenInto(body.getArgument(input),
                           body.getTerminator()->getOperand(result));
}

bool mayOverwrite(ir::DispatchOp dispatch, unsigned input, unsigned result) {
  if (changesParts(dispatch, input, result))
    return true;
  Block &body = dispatch.getBody().front();
  BlockArgument argument = body.getArgument(input);
  Value value = body.getTerminator()->getOperand(result);
  // A matrix product finishes its results one after the other.
  return readsOwnIndexOnly(argument, value) &&
         (isLoops(dispatch) || dispatch.getNumResults() == 1);
}

//===----------------------------------------------------------------------===//
// Around the kernel
//===----------------------------------------------------------------------===//

/// The search for readers stops after this many commands, so that long programs
/// compile in linear time.
static constexpr size_t maxSteps = 256;

/// True if the data of each of `readers` flows into `writer`.
static bool allFeed(ArrayRef<Operation *> readers, Operation *writer) {
  llvm::SmallDenseSet<Operation *, 16> missing(readers.begin(), readers.end());
  missing.erase(writer);
  llvm::SmallDenseSet<Operation *, 32> seen;
  SmallVector<Operation *> work{writer};
  while (!missing.empty() && !work.empty()) {
    Operation *op = work.pop_back_val();
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || !seen.insert(producer).second)
        continue;
      if (seen.size() > maxSteps)
        return false;
      missing.erase(producer);
      work.push_back(producer);
    }
  }
  return missing.empty();
}

/// The operators that read the bytes, under any shape; none if the caller reads
/// them.
static std::optional<SmallVector<Operation *>> readersOf(Value bytes) {
  SmallVector<Operation *> readers;
  SmallVector<Value> work{bytes};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        return std::nullopt;
      if (isReshape(user))
        work.push_back(user->getResult(0));
      else
        readers.push_back(user);
    }
  return readers;
}

static unsigned elementBits(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth())
                                : 0;
}

int64_t findDyingInput(OpResult result) {
  auto dispatch = dyn_cast<ir::DispatchOp>(result.getOwner());
  if (!dispatch || dispatch->hasAttr("initialize"))
    return -1;
  unsigned number = result.getResultNumber();
  for (auto [i, input] : llvm::enumerate(dispatch.getInputs())) {
    Value bytes = lookThroughReshapes(input);
    auto maker = bytes.getDefiningOp<ir::DispatchOp>();
    if (!maker || maker->hasAttr("initialize") ||
        elementBits(input) != elementBits(result) || !elementBits(input))
      continue;
    auto readsIt = [&](Value other) {
      return lookThroughReshapes(other) == bytes;
    };
    if (llvm::count_if(dispatch.getInputs(), readsIt) != 1)
      continue;
    auto readers = readersOf(bytes);
    if (readers && mayOverwrite(dispatch, i, number) &&
        allFeed(*readers, dispatch))
      return static_cast<int64_t>(i);
  }
  return -1;
}

} // namespace schedule
} // namespace anabranch
