//===- TileFootprint.cpp - the bytes that a tile may touch ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/footprint/TileFootprint.h"

#include "analysis/ReshapeIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

TileFootprint::TileFootprint(KernelFunction &function)
    : ranges(function), regions(function), function(function),
      lanes(function.lanes), boxes(function.source.getNumArguments()),
      results(function.source.getNumResults()) {}

Value TileFootprint::both(Value a, Value b) {
  return lanes.make<arith::AndIOp>(a, b);
}

Value TileFootprint::either(Value a, Value b) {
  return lanes.make<arith::OrIOp>(a, b);
}

//===----------------------------------------------------------------------===//
// Touched elements
//===----------------------------------------------------------------------===//

void TileFootprint::reads(const analysis::Reads &all,
                          ArrayRef<IndexRange> loops) {
  for (const analysis::Read &read : all.reads)
    touch(read, all, loops);
}

void TileFootprint::reads(Value tensor, ArrayRef<IndexRange> index,
                          llvm::function_ref<bool(Value)> isLeaf) {
  analysis::ReadCollector collector(tensor.getContext(), index.size(), isLeaf);
  collector.visit(tensor, collector.identity());
  reads(collector.take(), index);
}

/// Whether the index is one loop, whose number is not used in other ways. Such
/// a loop may run as one with another loop, and then goes beyond its own
/// dimension's size.
static bool isPosition(const analysis::SymbolicIndex &index,
                       const analysis::Reads &all) {
  auto loop = index.plainLoop();
  return loop && !all.numbered.test(*loop);
}

void TileFootprint::touch(const analysis::Read &read,
                          const analysis::Reads &all,
                          ArrayRef<IndexRange> loops) {
  auto argument = dyn_cast<BlockArgument>(read.tensor);
  if (!argument)
    return;
  Box box;
  box.empty = lanes.constant(lanes.builder.getBoolAttr(false));
  SmallVector<Value> shape = function.shape(argument);
  for (auto [position, size] : llvm::zip(read.index, shape)) {
    for (unsigned loop : position.loops.set_bits())
      box.empty = either(box.empty, ranges.isEmpty(loops[loop]));
    std::optional<IndexRange> range;
    if (position.expr)
      range = ranges.evaluate(position.expr, loops, all.symbols);
    if (!range)
      range = ranges.whole(size);
    else if (read.isGuarded && !isPosition(position, all))
      range = ranges.clamp(*range, size);
    box.empty = either(box.empty, ranges.isEmpty(*range));
    box.dims.push_back(*range);
  }
  std::optional<Box> &before = boxes[argument.getArgNumber()];
  if (!before) {
    before = std::move(box);
    return;
  }
  for (auto [a, b] : llvm::zip(before->dims, box.dims)) {
    IndexRange all = ranges.hull(a, b);
    a.low = ranges.select(before->empty, b.low,
                          ranges.select(box.empty, a.low, all.low));
    a.high = ranges.select(before->empty, b.high,
                           ranges.select(box.empty, a.high, all.high));
  }
  before->empty = both(before->empty, box.empty);
}

void TileFootprint::writes(const Destination &destination,
                           ArrayRef<IndexRange> index) {
  Value empty = lanes.constant(lanes.builder.getBoolAttr(false));
  for (const IndexRange &range : index)
    empty = either(empty, ranges.isEmpty(range));
  StridedRegion written =
      regions.of(index, empty, destinationBuffer(function, destination));
  std::optional<StridedRegion> &before = results[destination.result];
  before = before ? regions.unite(*before, written) : written;
}

/// The indices of the written value that belong to these indices of the
/// product.
static SmallVector<IndexRange> follow(RangeBuilder &ranges,
                                      KernelFunction &function,
                                      const Epilogue &epilogue,
                                      ArrayRef<IndexRange> product) {
  SmallVector<IndexRange> index(product);
  for (OpOperand *use : epilogue.path) {
    Operation *op = use->getOwner();
    SmallVector<IndexRange> next;
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      SmallVector<IndexRange> loops(generic.getNumLoops());
      AffineMap input = generic.getMatchingIndexingMap(use);
      for (auto [expr, range] : llvm::zip(input.getResults(), index))
        loops[cast<AffineDimExpr>(expr).getPosition()] = range;
      AffineMap output = generic.getIndexingMapsArray().back();
      for (AffineExpr expr : output.getResults())
        next.push_back(*ranges.evaluate(expr, loops, {}));
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      for (auto [group, range] :
           llvm::zip(expand.getReassociationIndices(), index)) {
        SmallVector<Value> sizes;
        for (int64_t part : group)
          sizes.push_back(function.dim(expand.getResult(), part));
        next.append(ranges.split(range, sizes));
      }
      // An expansion from rank zero adds dimensions of one element only.
      next.resize(expand.getResultType().getRank(),
                  ranges.point(function.lanes.index(0)));
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      auto step = [&](const IndexRange &position, int64_t part) {
        IndexRange size = ranges.point(function.dim(collapse.getSrc(), part));
        return ranges.add(ranges.mul(position, size), index[part]);
      };
      for (const ReassociationIndices &group :
           collapse.getReassociationIndices())
        next.push_back(analysis::joinIndex(
            group, ranges.point(function.lanes.index(0)), step));
    } else {
      next = index;
    }
    index = next;
  }
  return index;
}

void TileFootprint::epilogue(const Epilogue &epilogue, Value product,
                             ArrayRef<IndexRange> index) {
  SmallVector<IndexRange> written = follow(ranges, function, epilogue, index);
  reads(epilogue.written.value, written,
        [&](Value leaf) { return leaf == product; });
  writes(epilogue.written.destination, written);
}

void TileFootprint::store(Value footprints) {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  int32_t field = 0;
  auto storeField = [&](Value value) {
    Value address = lanes.builder.create<LLVM::GEPOp>(
        lanes.loc, pointer, lanes.builder.getI64Type(), footprints,
        ArrayRef<LLVM::GEPArg>{field++});
    lanes.builder.create<LLVM::StoreOp>(lanes.loc, lanes.toI64(value), address);
  };
  auto storeRegion = [&](const StridedRegion &entry) {
    for (Value value : {entry.offset, entry.width, entry.pitch, entry.count})
      storeField(value);
  };
  for (BlockArgument argument : function.source.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      continue;
    unsigned number = argument.getArgNumber();
    const std::optional<Box> &box = boxes[number];
    storeRegion(
        box ? regions.of(box->dims, box->empty, function.argument(number))
            : regions.nothing());
  }
  for (const std::optional<StridedRegion> &written : results)
    storeRegion(written ? *written : regions.nothing());
}

} // namespace kernels
} // namespace anabranch
