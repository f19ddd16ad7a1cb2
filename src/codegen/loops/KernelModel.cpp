//===- KernelModel.cpp - the loop nests of a kernel -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/loops/KernelModel.h"

#include "codegen/emit/Destinations.h"
#include "codegen/loops/Rows.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

SmallVector<unsigned> Nest::innerLoops() const {
  SmallVector<unsigned> inner;
  for (unsigned i = 0; i < loops.size(); ++i)
    if (loops[i].row < 0)
      inner.push_back(i);
  return inner;
}

std::optional<unsigned> Nest::loopOfRow(unsigned row) const {
  for (unsigned i = 0; i < loops.size(); ++i)
    if (loops[i].row == static_cast<int>(row))
      return i;
  return std::nullopt;
}

Nest *KernelModel::nestOf(Value value) const {
  for (auto &nest : nests) {
    if (nest->kind == Nest::Kind::Write)
      continue;
    if (nest->value == value || (nest->op && value.getDefiningOp() == nest->op))
      return nest.get();
  }
  return nullptr;
}

namespace {

class ModelBuilder {
public:
  explicit ModelBuilder(func::FuncOp source) {
    model.source = source;
    model.sizes = std::make_unique<SizeClasses>(source);
  }

  LogicalResult addOperations();
  void addWrites();
  void addKeeps();
  void collectReads();
  LogicalResult assignLevels();
  KernelModel take() { return std::move(model); }

private:
  KernelModel model;
  llvm::DenseMap<Nest *, unsigned> readyLevels;

  Nest *add(Nest::Kind kind, Operation *op, Value value);
  LogicalResult addReduction(linalg::GenericOp op);
  void addTensorLoops(Nest &nest, Value tensor);
  bool keepOne();
  unsigned level(Nest *nest);
  unsigned ready(Nest *nest);
};

} // namespace

Nest *ModelBuilder::add(Nest::Kind kind, Operation *op, Value value) {
  model.nests.push_back(std::make_unique<Nest>());
  Nest *nest = model.nests.back().get();
  nest->kind = kind;
  nest->op = op;
  nest->value = value;
  return nest;
}

void ModelBuilder::addTensorLoops(Nest &nest, Value tensor) {
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t i = 0; i < rank; ++i) {
    nest.loops.push_back({{tensor, i}, true});
    nest.resultLoops.push_back(i);
  }
}

LogicalResult ModelBuilder::addReduction(linalg::GenericOp op) {
  Nest *nest = add(Nest::Kind::Reduce, op, op.getResult(0));
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [i, type] : llvm::enumerate(op.getIteratorTypesArray())) {
    std::optional<DimOf> size;
    for (auto [number, map] : llvm::enumerate(maps))
      if (auto position =
              map.getResultPosition(getAffineDimExpr(i, op.getContext())))
        if (!size)
          size = DimOf{op->getOperand(number), static_cast<int64_t>(*position)};
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

/// Operations of the function that something returned depends on.
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
      Nest *nest = add(Nest::Kind::Scan, op, scan.getResult());
      addTensorLoops(*nest, scan.getInput());
      nest->loops[scan.getDimension()].parallel = false;
    } else if (auto scatter = dyn_cast<ir::ScatterOp>(op)) {
      add(Nest::Kind::Scatter, op, scatter.getResult());
    }
  }
  return success();
}

void ModelBuilder::addWrites() {
  unsigned results = model.source.getNumResults();
  for (unsigned result = 0; result < results; ++result) {
    for (Written &written : findWritten(model.source, result)) {
      Nest *maker = model.nestOf(written.value);
      bool inPlace = inPlaceArgument(model.source, result).has_value();
      // Written while an argument is still read by others, a reduction would
      // spoil it; a nest of its own comes after all of them.
      bool several = maker && maker->op->getNumResults() > 1;
      if (maker && !several &&
          (!inPlace || maker->kind == Nest::Kind::Scatter)) {
        maker->destinations.push_back(written.destination);
        continue;
      }
      Nest *write = nullptr;
      for (auto &nest : model.nests)
        if (nest->kind == Nest::Kind::Write && nest->value == written.value)
          write = nest.get();
      if (!write) {
        write = add(Nest::Kind::Write, nullptr, written.value);
        addTensorLoops(*write, written.value);
      }
      write->destinations.push_back(written.destination);
    }
  }
}

static void collectReduction(ReadCollector &collector, linalg::GenericOp op) {
  SmallVector<SymbolicIndex> point = collector.identity();
  collector.visitBody(op, point, /*withOutputs=*/false);
  for (auto [i, init] : llvm::enumerate(op.getDpsInits()))
    collector.visit(
        init, collector.apply(
                  op.getIndexingMapsArray()[op.getNumDpsInputs() + i], point));
}

static void collectScatter(ReadCollector &collector, ir::ScatterOp op) {
  auto anything = [](Value tensor) {
    int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
    return SmallVector<SymbolicIndex>(rank);
  };
  collector.visit(op.getUpdates(), anything(op.getUpdates()));
  collector.visit(op.getInit(), anything(op.getInit()));
  Block &body = op.getBody().front();
  SmallVector<SymbolicIndex> arguments(body.getNumArguments());
  collector.visitRegion(body, arguments, {});
}

void ModelBuilder::collectReads() {
  auto isLeaf = [&](Value value) { return model.nestOf(value) != nullptr; };
  for (auto &nest : model.nests)
    nest->isRead = false;
  for (auto &nest : model.nests) {
    ReadCollector collector(model.source.getContext(), nest->loops.size(),
                            isLeaf);
    if (nest->kind == Nest::Kind::Reduce) {
      collectReduction(collector, nest->generic());
    } else if (nest->kind == Nest::Kind::Scan) {
      collector.visit(cast<ir::ScanOp>(nest->op).getInput(),
                      collector.identity());
    } else if (nest->kind == Nest::Kind::Scatter) {
      collectScatter(collector, cast<ir::ScatterOp>(nest->op));
    } else if (auto generic = nest->value.getDefiningOp<linalg::GenericOp>();
               generic && nest->kind == Nest::Kind::Keep) {
      SmallVector<SymbolicIndex> point(nest->loops.size());
      AffineMap output =
          generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
      SmallVector<SymbolicIndex> identity = collector.identity();
      for (auto [i, expr] : llvm::enumerate(output.getResults()))
        point[cast<AffineDimExpr>(expr).getPosition()] = identity[i];
      collector.visitBody(generic, point, /*withOutputs=*/true);
    } else {
      collector.visit(nest->value, collector.identity());
    }
    nest->reads = collector.take();
    for (Read &read : nest->reads.reads)
      if (Nest *maker = model.nestOf(read.tensor))
        maker->isRead = true;
  }
}

//===----------------------------------------------------------------------===//
// Values worth keeping
//===----------------------------------------------------------------------===//

/// Every dimension of the value is another loop of its reader.
static bool isReadPlainly(const Read &read) {
  llvm::SmallDenseSet<unsigned> seen;
  return llvm::all_of(read.index, [&](const SymbolicIndex &index) {
    auto loop = index.plainLoop();
    return loop && seen.insert(*loop).second;
  });
}

/// Makes a keep of one expensive value that several nests read.
bool ModelBuilder::keepOne() {
  for (auto &nest : model.nests) {
    for (Read &read : nest->reads.expensive) {
      auto generic = read.tensor.getDefiningOp<linalg::GenericOp>();
      if (generic.getNumResults() != 1)
        continue;
      unsigned readers = 0;
      bool plain = true;
      for (auto &other : model.nests)
        for (Read &again : other->reads.expensive)
          if (again.tensor == read.tensor) {
            ++readers;
            plain &= isReadPlainly(again);
          }
      if (readers < 2 || !plain)
        continue;
      Nest *keep = add(Nest::Kind::Keep, nullptr, read.tensor);
      addTensorLoops(*keep, read.tensor);
      return true;
    }
  }
  return false;
}

void ModelBuilder::addKeeps() {
  while (keepOne())
    collectReads();
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

unsigned ModelBuilder::ready(Nest *nest) {
  // Chains of reductions reach a nest on very many paths: each is asked once.
  auto [known, isNew] = readyLevels.try_emplace(nest, 0);
  if (!isNew)
    return known->second;
  unsigned after = 0;
  for (Read &read : nest->reads.reads) {
    Nest *maker = model.nestOf(read.tensor);
    if (!maker || maker == nest)
      continue;
    after = std::max(after,
                     maker->filledBy == nest ? ready(maker) : level(maker) + 1);
  }
  return readyLevels[nest] = after;
}

unsigned ModelBuilder::level(Nest *nest) {
  if (nest->kind == Nest::Kind::Keep && nest->filledBy)
    return level(nest->filledBy);
  return ready(nest);
}

LogicalResult ModelBuilder::assignLevels() {
  for (auto &nest : model.nests)
    nest->level = level(nest.get());
  for (auto &keep : model.nests) {
    if (keep->kind != Nest::Kind::Keep)
      continue;
    Nest *first = nullptr;
    for (auto &nest : model.nests)
      for (Read &read : nest->reads.reads)
        if (read.tensor == keep->value &&
            nest->loops.size() == keep->loops.size() &&
            nest->kind != Nest::Kind::Keep && nest->kind != Nest::Kind::Scan &&
            (!first || nest->level < first->level))
          first = nest.get();
    if (!first)
      continue;
    keep->filledBy = first;
    first->fills.push_back(keep.get());
  }
  // Who fills what is decided now, and decides the levels anew.
  readyLevels.clear();
  unsigned last = 0;
  for (auto &nest : model.nests)
    last = std::max(last, nest->level = level(nest.get()));
  // What overwrites an argument comes after everything that may read it.
  for (auto &nest : model.nests)
    for (Destination &destination : nest->destinations)
      if (nest->kind == Nest::Kind::Write &&
          inPlaceArgument(model.source, destination.result))
        nest->level = last;
  std::vector<std::unique_ptr<Nest>> sorted;
  for (unsigned wanted = 0; wanted <= last; ++wanted)
    for (auto &nest : model.nests)
      if (nest && nest->level == wanted)
        sorted.push_back(std::move(nest));
  model.nests = std::move(sorted);
  return success();
}

FailureOr<KernelModel> KernelModel::build(func::FuncOp source,
                                          const TargetInfo &target) {
  auto attempt = [&](bool keep) -> FailureOr<KernelModel> {
    ModelBuilder builder(source);
    if (failed(builder.addOperations()))
      return failure();
    builder.addWrites();
    builder.collectReads();
    if (keep)
      builder.addKeeps();
    if (failed(builder.assignLevels()))
      return failure();
    KernelModel model = builder.take();
    formGroups(model);
    for (Group &group : model.groups) {
      chooseLanes(model, group, target);
      chooseBlocks(model, group);
    }
    return model;
  };
  FailureOr<KernelModel> model = attempt(true);
  if (failed(model))
    return failure();
  // Without rows a kept value would be a whole tensor.
  for (Group &group : model->groups)
    if (group.rows.empty() && llvm::any_of(group.nests, [](Nest *nest) {
          return nest->kind == Nest::Kind::Keep;
        }))
      return attempt(false);
  return model;
}

} // namespace codegen
} // namespace anabranch
