//===- Joins.cpp - tensors put together, and padding ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Stretches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// The operands that contribute to the result, in its dtype. PyTorch lets a 1-d
/// tensor without elements join any others.
static SmallVector<Value> joined(LoweringBuilder &b, int64_t rank) {
  SmallVector<Value> tensors;
  for (const Operand &tensor : b.operandList("tensors"))
    if (tensor.rank() == rank || tensor.rank() != 1 || tensor.size(0) != 0)
      tensors.push_back(b.convert(tensor, b.resultDType()));
  return tensors;
}

/// cat: one insert_slice after the other.
static Lowered lowerCat(ir::AtenOp op, LoweringBuilder &b) {
  Sizes sizes = op.getResultSizes();
  int64_t dim = dimArg(op, "dim", sizes.size());
  SmallVector<Value> tensors = joined(b, sizes.size());
  if (tensors.size() == 1 && tensors[0].getType() == op.getResult(0).getType())
    return lowered(tensors[0]);
  Value result = b.empty(sizes, b.resultDType());
  OpFoldResult offset = b.builder.getIndexAttr(0);
  for (Value tensor : tensors) {
    Sizes part = sizesOf(b.builder, b.loc, tensor);
    Sizes offsets(sizes.size(), b.builder.getIndexAttr(0));
    Sizes strides(sizes.size(), b.builder.getIndexAttr(1));
    offsets[dim] = offset;
    result =
        b.create<tensor::InsertSliceOp>(tensor, result, offsets, part, strides);
    offset = addSizes(b.builder, b.loc, offset, part[dim]);
  }
  return lowered(result);
}

/// stack: a cat along a new dimension.
static Lowered lowerStack(ir::AtenOp op, LoweringBuilder &b) {
  Sizes sizes = op.getResultSizes();
  int64_t dim = dimArg(op, "dim", sizes.size());
  Value result = b.empty(sizes, b.resultDType());
  for (auto [number, operand] : llvm::enumerate(b.operandList("tensors"))) {
    Value tensor = b.convert(operand, b.resultDType());
    result = insertAt(b, tensor, result, {dim}, {int64_t(number)});
  }
  return lowered(result);
}

namespace {
/// The padding of each dimension, in their order. A negative one cuts off.
struct Padding {
  Sizes low, high;
};
} // namespace

/// PyTorch lists pairs from the last dimension backwards.
static Padding paddingOf(ir::AtenOp op, LoweringBuilder &b, StringRef name,
                         int64_t rank) {
  Sizes pairs = op.getSizeListArg(name), none(rank, b.indexAttr(0));
  Padding padding{none, none};
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    padding.low[rank - 1 - i / 2] = pairs[i];
    padding.high[rank - 1 - i / 2] = pairs[i + 1];
  }
  return padding;
}

static bool mayBePositive(OpFoldResult padding) {
  return getConstantIntValue(padding).value_or(1) > 0;
}

/// constant_pad_nd: inserts the kept part of the input into the constant.
static Lowered lowerConstantPad(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  Padding padding = paddingOf(op, b, "pad", self.rank());
  auto value = op.getFloatArg("value");
  if (!value)
    return b.refuse("the padding value is symbolic");
  Sizes kept = sizesOf(b.builder, b.loc, self.value);
  Sizes strides(kept.size(), b.indexAttr(1));
  Sizes from(kept.size(), b.indexAttr(0)), to = from;
  OpFoldResult zero = b.indexAttr(0);
  auto below = [&](OpFoldResult size) {
    return minSizes(b.builder, b.loc, size, zero);
  };
  bool cuts = false, pads = false;
  for (auto [dim, low, high] : llvm::enumerate(padding.low, padding.high)) {
    pads |= mayBePositive(low) || mayBePositive(high);
    to[dim] = low;
    for (OpFoldResult border : {low, high})
      if (!isNonNegative(border)) {
        cuts = true;
        kept[dim] = addSizes(b.builder, b.loc, kept[dim], below(border));
      }
    if (!isNonNegative(low)) {
      from[dim] = subSizes(b.builder, b.loc, zero, below(low));
      to[dim] = maxSizes(b.builder, b.loc, low, zero);
    }
  }
  Value middle = self.value;
  if (cuts)
    middle = b.create<tensor::ExtractSliceOp>(self.value, from, kept, strides);
  if (!pads)
    return lowered(middle);
  Value filled = b.fill(op.getResultSizes(), b.resultDType(), *value);
  return lowered(
      b.create<tensor::InsertSliceOp>(middle, filled, to, kept, strides));
}

static Value constantIndex(Body &body, int64_t value) {
  return body.create<arith::ConstantIndexOp>(value);
}

/// Index `i` of a padded dimension in the tensor of size `last + 1`.
using BorderFn = llvm::function_ref<Value(Body &, Value i, Value last)>;

/// The stretches of the last dimension: border, input, border. Empty if its
/// size is not known, or if padding cuts off.
static SmallVector<Stretch> borders(Operand self, const Padding &padding) {
  int64_t size = self.type().getShape().back();
  auto low = getConstantIntValue(padding.low.back());
  auto high = getConstantIntValue(padding.high.back());
  if (ShapedType::isDynamic(size) || !low || !high || *low < 0 || *high < 0)
    return {};
  return {{*low, std::nullopt}, {size, 0}, {*high, std::nullopt}};
}

/// Reads each element of the padded tensor where `border` says.
static Lowered padBy(ir::AtenOp op, LoweringBuilder &b, BorderFn border) {
  Operand self = b.operand("self");
  Padding padding = paddingOf(op, b, "padding", self.rank());
  Indices last, low;
  for (auto [dim, size] : llvm::enumerate(b.sizesOf(self.value))) {
    OpFoldResult end = subSizes(b.builder, b.loc, size, b.indexAttr(1));
    last.push_back(asIndex(b.builder, b.loc, end));
    low.push_back(asIndex(b.builder, b.loc, padding.low[dim]));
  }
  return lowered(gatherStretches(
      b, self.value, op.getResultSizes(), borders(self, padding),
      [&](Body &body, unsigned dim, Value position) -> Value {
        if (isConstantIntValue(padding.low[dim], 0) &&
            isConstantIntValue(padding.high[dim], 0))
          return position;
        Value shifted = body.create<arith::SubIOp>(position, low[dim]);
        return border(body, shifted, last[dim]);
      }));
}

static Value absolute(Body &body, Value index) {
  Value negated = body.create<arith::SubIOp>(constantIndex(body, 0), index);
  return body.create<arith::MaxSIOp>(index, negated);
}

static Lowered lowerReflectionPad(ir::AtenOp op, LoweringBuilder &b) {
  return padBy(op, b, [](Body &body, Value i, Value last) -> Value {
    // |last - |i|| is the distance from the end, mirrored at both borders.
    Value fromEnd =
        absolute(body, body.create<arith::SubIOp>(last, absolute(body, i)));
    return body.create<arith::SubIOp>(last, fromEnd);
  });
}

static Lowered lowerReplicationPad(ir::AtenOp op, LoweringBuilder &b) {
  return padBy(op, b, [](Body &body, Value i, Value last) -> Value {
    Value atLeast = body.create<arith::MaxSIOp>(i, constantIndex(body, 0));
    return body.create<arith::MinSIOp>(atLeast, last);
  });
}

void anabranch::importer::registerJoins(OpTable &table) {
  table.family("view", Movable);
  table.add("cat", lowerCat,
            "[T(2, 3), T(4, 3)], 0; [T(2, 3), T(2, 1), T(2, 5)], -1");
  table.add("stack", lowerStack, "[T(2, 3), T(2, 3)], 1");
  table.add("constant_pad_nd", lowerConstantPad,
            "T(3, 4), [1, 2], 1; T(3, 5), [-1, 2, 1, -1]");
  const char *line = "T(2, 3, 5), [2, 1]";
  const char *image = "T(2, 3, 5, 6), [2, 1, 3, 0]";
  const char *volume = "T(2, 3, 4, 5), [2, 1, 3, 0, 1, 2]";
  table.addWhole("reflection_pad1d", lowerReflectionPad, line);
  table.addWhole("reflection_pad2d", lowerReflectionPad, image);
  table.addWhole("reflection_pad3d", lowerReflectionPad, volume);
  table.addWhole("replication_pad1d", lowerReplicationPad, line);
  table.addWhole("replication_pad2d", lowerReplicationPad, image);
  table.addWhole("replication_pad3d", lowerReplicationPad, volume);
}
