//===- ScatterRows.cpp - a scatter that ends row after row ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/scatters/ScatterRows.h"

#include "kernels/nests/ScatterDims.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Vectors of a block: independent sums hide the latency of an addition, and
/// there are registers for them and for what is added.
static constexpr int64_t vectorsAtOnce = 8;
/// A row of more vectors would be too much code.
static constexpr int64_t longestRow = 64;

static int64_t rankOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank();
}

/// For each dimension of the result but that of the rows, the dimension of the
/// updates.
static SmallVector<std::optional<unsigned>> columnDims(ir::ScatterOp scatter,
                                                       unsigned rows) {
  auto along = updatedAlong(scatter);
  along[rows].reset();
  return along;
}

bool ScatterRows::fits(const LoopContext &context, const LoopNest &nest) {
  int rows = context.group.rangedLoop;
  auto scatter = cast<ir::ScatterOp>(nest.op);
  Value result = scatter.getResult(), updates = scatter.getUpdates();
  int64_t last = rankOf(result) - 1;
  Type element = getElementTypeOrSelf(result.getType());
  // Narrower ones are kept in registers in another form than in memory.
  bool isPlain = element.isF32() || element.isF64() || element.isInteger(32) ||
                 element.isInteger(64);
  if (rows < 0 || rows == last || !isPlain || rowOf(scatter) != last)
    return false;
  analysis::SizeClasses &sizes = *context.model.sizes;
  for (auto [dim, along] : llvm::enumerate(columnDims(scatter, rows)))
    if (int64_t(dim) != rows &&
        (!along || !sizes.equal({result, int64_t(dim)}, {updates, *along})))
      return false;
  auto columns = sizes.known({result, last});
  int64_t width = context.group.width;
  return columns && *columns > 0 && *columns % width == 0 &&
         *columns <= longestRow * width;
}

ScatterRows::ScatterRows(LoopContext &context, const LoopNest &nest,
                         const RangeLists &lists, bool isInPlace)
    : context(context), lanes(context.lanes), lists(lists),
      scatter(cast<ir::ScatterOp>(nest.op)), isInPlace(isInPlace),
      along(columnDims(scatter, context.group.rangedLoop)),
      columns(*context.model.sizes->known(
          {scatter.getResult(), rankOf(scatter.getResult()) - 1})) {}

void ScatterRows::emit(const TilePart &part, const Buffer &target) {
  lanes.loop(part.firstOuter, part.lastOuter, 1, [&](Value row) {
    UpdateRange updates = lists.ofRow(row);
    Point index(along.size(), lanes.indexLanes(0));
    index[context.group.rangedLoop] = Lanes::uniform(row);
    auto columns = [&] { emitColumns(target, index, 0, updates); };
    if (isInPlace)
      lanes.ifThen(updates.hasAny(lanes), columns);
    else
      columns();
  });
}

/// Emits the loops over the result's dimensions from `depth` on.
void ScatterRows::emitColumns(const Buffer &target, Point &index, size_t depth,
                              UpdateRange updates) {
  if (depth + 1 == along.size()) {
    int64_t step = vectorsAtOnce * context.group.width;
    LaneBuilder::MaskGuard guard(lanes, context.group.width, Value());
    for (int64_t first = 0; first < columns; first += step)
      emitBlock(target, index, first, std::min(first + step, columns), updates);
    return;
  }
  if (int(depth) == context.group.rangedLoop)
    return emitColumns(target, index, depth + 1, updates);
  Value size = context.function.dim(scatter.getUpdates(), *along[depth]);
  lanes.loop(lanes.index(0), size, 1, [&](Value at) {
    index[depth] = Lanes::uniform(at);
    emitColumns(target, index, depth + 1, updates);
  });
}

Lanes ScatterRows::column(int64_t first) const {
  Value index = lanes.index(first);
  int64_t width = context.group.width;
  return width == 1 ? Lanes::uniform(index) : Lanes::linear(index, 1, width);
}

void ScatterRows::emitBlock(const Buffer &target, Point index, int64_t first,
                            int64_t end, UpdateRange updates) {
  Evaluator &evaluator = context.evaluator;
  Block &body = scatter.getBody().front();
  auto overVectors = [&](llvm::function_ref<void()> emit) {
    for (int64_t at = first; at < end; at += context.group.width) {
      index.back() = column(at);
      emit();
    }
  };
  Values values;
  overVectors([&] {
    values.push_back(
        lanes.vector(evaluator.evaluate(scatter.getInit(), index)));
  });
  auto update = [&](Value at, ValueRange carried) {
    Point point(rankOf(scatter.getUpdates()), lanes.indexLanes(0));
    lists.setPoint(lists.number(at), point);
    Values updated;
    overVectors([&] {
      for (auto [position, dim] : llvm::zip(index, along))
        if (dim)
          point[*dim] = position;
      SmallVector<Lanes> arguments(point);
      arguments.push_back(lanes.wrap(carried[updated.size()]));
      arguments.push_back(evaluator.evaluate(scatter.getUpdates(), point));
      updated.push_back(lanes.vector(evaluator.evaluateLast(body, arguments)));
    });
    return updated;
  };
  values = lanes.loop(updates.first, updates.last, 1, values, update);
  const Value *value = values.begin();
  overVectors([&] { store(lanes, target, index, lanes.wrap(*value++)); });
}

} // namespace kernels
} // namespace anabranch
