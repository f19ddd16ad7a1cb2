//===- BuildModel.cpp - a kernel function becomes loop nests --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/BuildModel.h"

#include "ir/Anabranch.h"
#include "kernels/nests/BlockChoice.h"
#include "kernels/nests/LaneChoice.h"
#include "kernels/nests/RowOrder.h"
#include "kernels/nests/ScatterDims.h"
#include "kernels/nests/SharedLoops.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

class ModelBuilder {
public:
  explicit ModelBuilder(func::FuncOp source) {
    model.source = source;
    model.sizes = std::make_unique<analysis::SizeClasses>(source);
  }

  LogicalResult addOperations();
  void addWrites();
  void addTemporaries();
  void collectReads();
  LogicalResult assignLevels();
  KernelModel take() { return std::move(model); }

private:
  KernelModel model;
  llvm::DenseMap<LoopNest *, unsigned> readyLevels;

  LoopNest *add(LoopNest::Kind kind, Operation *op, Value value);
  LogicalResult addReduction(linalg::GenericOp op);
  void addTensorLoops(LoopNest &nest, Value tensor);
  void addScatter(ir::ScatterOp op);
  bool addTemporary();
  unsigned level(LoopNest *nest);
  unsigned ready(LoopNest *nest);
};

} // namespace

LoopNest *ModelBuilder::add(LoopNest::Kind kind, Operation *op, Value value) {
  model.nests.push_back(std::make_unique<LoopNest>());
  LoopNest *nest = model.nests.back().get();
  nest->kind = kind;
  nest->op = op;
  nest->value = value;
  return nest;
}

void ModelBuilder::addTensorLoops(LoopNest &nest, Value tensor) {
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t i = 0; i < rank; ++i) {
    nest.loops.push_back({{tensor, i}, true});
    nest.resultLoops.push_back(i);
  }
}

/// A dimension of the result of which each part is updated from the same part
/// of the updates is parallel. At least one loop stays serial, so that the
/// result has a place.
void ModelBuilder::addScatter(ir::ScatterOp op) {
  LoopNest *nest = add(LoopNest::Kind::Scatter, op, op.getResult());
  addTensorLoops(*nest, op.getResult());
  SmallVector<std::optional<unsigned>> dims = updatedAlong(op);
  bool isSerial = false;
  for (auto [loop, dim] : llvm::zip(nest->loops, dims)) {
    loop.parallel =
        dim && model.sizes->equal(loop.size, {op.getUpdates(), *dim});
    isSerial |= !loop.parallel;
  }
  if (!isSerial && !nest->loops.empty())
    nest->loops.front().parallel = false;
}

LogicalResult ModelBuilder::addReduction(linalg::GenericOp op) {
  LoopNest *nest = add(LoopNest::Kind::Reduce, op, op.getResult(0));
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [i, type] : llvm::enumerate(op.getIteratorTypesArray())) {
    std::optional<analysis::DimOf> size;
    for (auto [number, map] : llvm::enumerate(maps))
      if (auto position =
              map.getResultPosition(getAffineDimExpr(i, op.getContext())))
        if (!size)
          size = analysis::DimOf{op->getOperand(number),
                                 static_cast<int64_t>(*position)};
    if (!size)
      return op.emitError("no operand has the size of loop ") << i;
    nest->loops.push_back({*size, type == utils::IteratorType::parallel});
  }
  AffineMap output = maps[op.getNumDpsInputs()];
  for (unsigned i = 1; i < op.getNumResults(); ++i)
    if (maps[op.getNumDpsInputs() + i] != output)
      return op.emitError("results of a reduction differ in shape");
  for (AffineExpr expr : output.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim)
      return op.emitError("result of a reduction is not a projection");
    nest->resultLoops.push_back(dim.getPosition());
  }
  return success();
}

/// The operations of the function that a result depends on.
static SmallVector<Operation *> liveOperations(func::FuncOp source) {
  llvm::DenseSet<Operation *> live;
  SmallVector<Operation *> order;
  for (Operation &op : llvm::reverse(source.front())) {
    bool used = op.hasTrait<OpTrait::IsTerminator>() || live.contains(&op);
    if (!used)
      continue;
    order.push_back(&op);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (producer->getBlock() == &source.front())
            live.insert(producer);
    });
  }
  std::reverse(order.begin(), order.end());
  return order;
}

LogicalResult ModelBuilder::addOperations() {
  for (Operation *op : liveOperations(model.source)) {
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      if (generic.getNumReductionLoops() != 0 && failed(addReduction(generic)))
        return failure();
    } else if (auto scan = dyn_cast<ir::ScanOp>(op)) {
      LoopNest *nest = add(LoopNest::Kind::Scan, op, scan.getResult());
      addTensorLoops(*nest, scan.getInput());
      nest->loops[scan.getDimension()].parallel = false;
    } else if (auto scatter = dyn_cast<ir::ScatterOp>(op)) {
      addScatter(scatter);
    }
  }
  return success();
}

void ModelBuilder::addWrites() {
  unsigned results = model.source.getNumResults();
  for (unsigned result = 0; result < results; ++result) {
    for (Written &written : findWritten(model.source, result)) {
      LoopNest *maker = model.nestOf(written.value);
      bool inPlace = inPlaceArgument(model.source, result).has_value();
      // A reduction that overwrites an argument would destroy it while other
      // nests still read it. A nest of its own writes the result after all of
      // them.
      bool several = maker && maker->op->getNumResults() > 1;
      if (maker && !several &&
          (!inPlace || maker->kind == LoopNest::Kind::Scatter)) {
        maker->destinations.push_back(written.destination);
        continue;
      }
      LoopNest *write = nullptr;
      for (auto &nest : model.nests)
        if (nest->kind == LoopNest::Kind::Write && nest->value == written.value)
          write = nest.get();
      if (!write) {
        write = add(LoopNest::Kind::Write, nullptr, written.value);
        addTensorLoops(*write, written.value);
      }
      write->destinations.push_back(written.destination);
    }
  }
}

static void collectReduction(analysis::ReadCollector &collector,
                             linalg::GenericOp op) {
  SmallVector<analysis::SymbolicIndex> point = collector.identity();
  collector.visitBody(op, point, /*withOutputs=*/false);
  for (auto [i, init] : llvm::enumerate(op.getDpsInits()))
    collector.visit(
        init, collector.apply(
                  op.getIndexingMapsArray()[op.getNumDpsInputs() + i], point));
}

static void collectScatter(analysis::ReadCollector &collector,
                           const LoopNest &nest) {
  auto op = cast<ir::ScatterOp>(nest.op);
  SmallVector<analysis::SymbolicIndex> target = collector.identity();
  collector.visit(op.getInit(), target);
  // The serial loops go over the result; where updates are read meanwhile is
  // not known.
  Block &body = op.getBody().front();
  analysis::SymbolicIndex anywhere{AffineExpr(),
                                   llvm::SmallBitVector(nest.loops.size())};
  SmallVector<analysis::SymbolicIndex> arguments(body.getNumArguments(),
                                                 anywhere);
  for (auto [loop, dim] : llvm::enumerate(updatedAlong(op)))
    if (nest.loops[loop].parallel)
      arguments[*dim] = target[loop];
  collector.visit(op.getUpdates(), ArrayRef(arguments).drop_back(2));
  collector.visitRegion(body, arguments, {});
}

void ModelBuilder::collectReads() {
  auto isLeaf = [&](Value value) { return model.nestOf(value) != nullptr; };
  for (auto &nest : model.nests)
    nest->isRead = false;
  for (auto &nest : model.nests) {
    analysis::ReadCollector collector(model.source.getContext(),
                                      nest->loops.size(), isLeaf);
    if (nest->kind == LoopNest::Kind::Reduce) {
      collectReduction(collector, nest->generic());
    } else if (nest->kind == LoopNest::Kind::Scan) {
      collector.visit(cast<ir::ScanOp>(nest->op).getInput(),
                      collector.identity());
    } else if (nest->kind == LoopNest::Kind::Scatter) {
      collectScatter(collector, *nest);
    } else if (auto generic = nest->value.getDefiningOp<linalg::GenericOp>();
               generic && nest->kind == LoopNest::Kind::Temporary) {
      SmallVector<analysis::SymbolicIndex> point(nest->loops.size());
      AffineMap output =
          generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
      SmallVector<analysis::SymbolicIndex> identity = collector.identity();
      for (auto [i, expr] : llvm::enumerate(output.getResults()))
        point[cast<AffineDimExpr>(expr).getPosition()] = identity[i];
      collector.visitBody(generic, point, /*withOutputs=*/true);
    } else {
      collector.visit(nest->value, collector.identity());
    }
    nest->reads = collector.take();
    for (analysis::Read &read : nest->reads.reads)
      if (LoopNest *maker = model.nestOf(read.tensor))
        maker->isRead = true;
  }
}

//===----------------------------------------------------------------------===//
// Temporaries
//===----------------------------------------------------------------------===//

/// Whether every dimension of the value is another loop of its reader.
static bool isReadPlainly(const analysis::Read &read) {
  llvm::SmallDenseSet<unsigned> seen;
  return llvm::all_of(read.index, [&](const analysis::SymbolicIndex &index) {
    auto loop = index.plainLoop();
    return loop && seen.insert(*loop).second;
  });
}

/// Makes a temporary of one expensive value that several nests read. False if
/// there is none.
bool ModelBuilder::addTemporary() {
  for (auto &nest : model.nests) {
    for (analysis::Read &read : nest->reads.expensive) {
      auto generic = read.tensor.getDefiningOp<linalg::GenericOp>();
      if (generic.getNumResults() != 1)
        continue;
      unsigned readers = 0;
      bool plain = true;
      for (auto &other : model.nests)
        for (analysis::Read &again : other->reads.expensive)
          if (again.tensor == read.tensor) {
            ++readers;
            plain &= isReadPlainly(again);
          }
      if (readers < 2 || !plain)
        continue;
      LoopNest *temporary =
          add(LoopNest::Kind::Temporary, nullptr, read.tensor);
      addTensorLoops(*temporary, read.tensor);
      return true;
    }
  }
  return false;
}

void ModelBuilder::addTemporaries() {
  while (addTemporary())
    collectReads();
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

unsigned ModelBuilder::ready(LoopNest *nest) {
  // Many paths lead through chains of reductions to a nest, so each result is
  // remembered.
  auto [known, isNew] = readyLevels.try_emplace(nest, 0);
  if (!isNew)
    return known->second;
  unsigned after = 0;
  for (analysis::Read &read : nest->reads.reads) {
    LoopNest *maker = model.nestOf(read.tensor);
    if (!maker || maker == nest)
      continue;
    after = std::max(after,
                     maker->filledBy == nest ? ready(maker) : level(maker) + 1);
  }
  return readyLevels[nest] = after;
}

unsigned ModelBuilder::level(LoopNest *nest) {
  if (nest->kind == LoopNest::Kind::Temporary && nest->filledBy)
    return level(nest->filledBy);
  return ready(nest);
}

LogicalResult ModelBuilder::assignLevels() {
  for (auto &nest : model.nests)
    nest->level = level(nest.get());
  for (auto &temporary : model.nests) {
    if (temporary->kind != LoopNest::Kind::Temporary)
      continue;
    LoopNest *first = nullptr;
    for (auto &nest : model.nests)
      for (analysis::Read &read : nest->reads.reads)
        if (read.tensor == temporary->value &&
            nest->loops.size() == temporary->loops.size() &&
            nest->kind != LoopNest::Kind::Temporary &&
            nest->kind != LoopNest::Kind::Scan &&
            nest->kind != LoopNest::Kind::Scatter &&
            (!first || nest->level < first->level))
          first = nest.get();
    if (!first)
      continue;
    temporary->filledBy = first;
    first->fills.push_back(temporary.get());
  }
  // A temporary runs with the nest that fills it, which changes levels.
  readyLevels.clear();
  unsigned last = 0;
  for (auto &nest : model.nests)
    last = std::max(last, nest->level = level(nest.get()));
  // A nest that overwrites an argument comes after all nests that may read it.
  for (auto &nest : model.nests)
    for (Destination &destination : nest->destinations)
      if (nest->kind == LoopNest::Kind::Write &&
          inPlaceArgument(model.source, destination.result))
        nest->level = last;
  std::vector<std::unique_ptr<LoopNest>> sorted;
  for (unsigned wanted = 0; wanted <= last; ++wanted)
    for (auto &nest : model.nests)
      if (nest && nest->level == wanted)
        sorted.push_back(std::move(nest));
  model.nests = std::move(sorted);
  return success();
}

FailureOr<KernelModel> buildModel(func::FuncOp source,
                                  const native::TargetInfo &target) {
  auto attempt = [&](bool withTemporaries) -> FailureOr<KernelModel> {
    ModelBuilder builder(source);
    if (failed(builder.addOperations()))
      return failure();
    builder.addWrites();
    builder.collectReads();
    if (withTemporaries)
      builder.addTemporaries();
    if (failed(builder.assignLevels()))
      return failure();
    KernelModel model = builder.take();
    formGroups(model);
    for (NestGroup &group : model.groups) {
      chooseLanes(model, group, target);
      chooseRowOrder(model, group, target);
      chooseBlock(model, group, target);
    }
    return model;
  };
  FailureOr<KernelModel> model = attempt(true);
  if (failed(model))
    return failure();
  // Without shared dimensions, a temporary would be a whole tensor.
  for (NestGroup &group : model->groups)
    if (group.sharedLoops.empty() &&
        llvm::any_of(group.nests, [](LoopNest *nest) {
          return nest->kind == LoopNest::Kind::Temporary;
        }))
      return attempt(false);
  return model;
}

} // namespace kernels
} // namespace anabranch
