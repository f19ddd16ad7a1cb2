//===- Attention.cpp - scaled dot product attention -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// Why anabranch.attention does not take these operands; empty if it does.
static StringRef refusalOf(LoweringBuilder &b, Operand query, Operand key,
                           Operand value, Operand mask, bool grouped) {
  if (query.dtype != key.dtype || query.dtype != value.dtype)
    return "operands of several dtypes";
  if (mask && !mask.dtype.isBool() && !mask.dtype.isFloat())
    return "the mask is neither bool nor float";
  int64_t rank = query.rank();
  if (rank < 2 || key.rank() != rank || value.rank() != rank ||
      (mask && mask.rank() > rank))
    return "operands of several ranks";
  if (query.size(rank - 1) <= 0)
    return "the head size is symbolic or zero";
  for (int64_t dim = 0; dim < rank - 2; ++dim) {
    OpFoldResult size = b.sizeOf(key.value, dim);
    if (!sameSize(size, b.sizeOf(value.value, dim)))
      return "key and value have other batches";
    bool isHead = grouped && dim == rank - 3;
    if (isHead ? key.size(dim) <= 0 || query.size(dim) <= 0 ||
                     query.size(dim) % key.size(dim) != 0
               : !sameSize(size, b.sizeOf(query.value, dim)))
      return "the batches differ";
  }
  return "";
}

/// The keys or values whose heads `tensor` repeats, each for as many heads of
/// the query as share it: transformers' repeat_kv, or repeat_interleave. Null
/// if `tensor` repeats nothing.
static Value beforeRepetition(LoweringBuilder &b, Value tensor) {
  auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>();
  int64_t head = cast<RankedTensorType>(tensor.getType()).getRank() - 3;
  if (!collapse || head < 0)
    return Value();
  for (auto [dim, group] : llvm::enumerate(collapse.getReassociationIndices()))
    if (group.size() != (int64_t(dim) == head ? 2 : 1))
      return Value();
  auto repeat = collapse.getSrc().getDefiningOp<linalg::GenericOp>();
  if (!repeat || repeat.getNumDpsInputs() != 1 ||
      repeat.getNumReductionLoops() != 0)
    return Value();
  Block &body = repeat.getRegion().front();
  if (&body.front() != body.getTerminator() ||
      body.front().getOperand(0) != body.getArgument(0))
    return Value();
  // Along the dimension after the heads, the one element of the source
  // repeats.
  SmallVector<AffineMap> maps = repeat.getIndexingMapsArray();
  ArrayRef<int64_t> loops = collapse.getSrcType().getShape();
  for (auto [dim, expr] : llvm::enumerate(maps[0].getResults())) {
    bool isFirst = expr == getAffineConstantExpr(0, b.context());
    bool isOwn = expr == getAffineDimExpr(dim, b.context());
    if (int64_t(dim) == head + 1 ? !isFirst
                                 : !isOwn && !(isFirst && loops[dim] == 1))
      return Value();
  }
  if (!maps[1].isIdentity() || maps[0].getNumResults() != loops.size())
    return Value();
  Sizes sizes = b.sizesOf(repeat.getDpsInputs()[0]);
  sizes.erase(sizes.begin() + head + 1);
  return reshape(b.builder, b.loc, repeat.getDpsInputs()[0], sizes);
}

/// Whether all heads of the query share one of the keys and values.
static bool sharesOneHead(Operand query, Operand key, Operand value) {
  int64_t heads = query.rank() - 3;
  return heads >= 0 && key.rank() == query.rank() &&
         value.rank() == query.rank() && query.size(heads) > 1 &&
         key.size(heads) == 1 && value.size(heads) == 1;
}

/// Repeats the operand along the first `dims` dimensions of the result in which
/// its size is one.
static void repeatBatches(LoweringBuilder &b, Operand &operand, int64_t dims) {
  Sizes sizes = b.sizesOf(operand.value), results = b.resultSizes();
  if (sizes.size() != results.size())
    return;
  bool repeats = false;
  for (int64_t dim = 0; dim < dims; ++dim)
    if (operand.size(dim) == 1 && !isConstantIntValue(results[dim], 1)) {
      sizes[dim] = results[dim];
      repeats = true;
    }
  if (repeats)
    operand.value = broadcastTo(b, operand.value, sizes);
}

static Lowered lowerAttention(ir::AtenOp op, LoweringBuilder &b) {
  Operand query = b.operand("query"), key = b.operand("key");
  Operand value = b.operand("value"), mask = b.operand("attn_mask");
  auto dropout = op.getFloatArg("dropout_p");
  if (!dropout || *dropout != 0)
    return b.refuse("dropout");
  for (unsigned i = 1; i < op.getNumResults(); ++i)
    if (!op.getResult(i).use_empty())
      return b.refuse("the backward pass reads the logarithms of the sums");
  bool grouped = op.getBoolArg("enable_gqa").value_or(false);
  if (!grouped) {
    Value keys = beforeRepetition(b, key.value);
    Value values = beforeRepetition(b, value.value);
    if (keys && values) {
      key = b.tensor(keys), value = b.tensor(values);
      grouped = true;
    }
  }
  grouped |= sharesOneHead(query, key, value);
  int64_t batches = std::max<int64_t>(0, query.rank() - 2);
  repeatBatches(b, query, batches);
  for (Operand *operand : {&key, &value})
    repeatBatches(b, *operand, grouped ? batches - 1 : batches);
  if (StringRef why = refusalOf(b, query, key, value, mask, grouped);
      !why.empty())
    return b.refuse(why);
  double scale = 1 / std::sqrt(double(query.size(query.rank() - 1)));
  if (auto given = op.getFloatArg("scale"))
    scale = *given;
  else if (op.getOperandArg("scale"))
    return b.refuse("the scale is symbolic");
  SmallVector<Value> dims;
  for (OpFoldResult size : op.getResultSizes())
    if (auto dim = dyn_cast<Value>(size))
      dims.push_back(dim);
  auto flag = [&](bool isSet) {
    return isSet ? b.builder.getUnitAttr() : UnitAttr();
  };
  auto attention = b.create<ir::AttentionOp>(
      b.resultType(), query.value, key.value, value.value, mask.value, dims,
      b.builder.getF64FloatAttr(scale),
      flag(op.getBoolArg("is_causal").value_or(false)), flag(grouped));
  SmallVector<Value> results(op.getNumResults());
  results[0] = attention.getResult();
  return results;
}

void anabranch::importer::registerAttention(OpTable &table) {
  table.family("attention");
  table.addWhole("scaled_dot_product_attention", lowerAttention,
                 "T(2, 3, 5, 8), T(2, 3, 7, 8), T(2, 3, 7, 4);"
                 "T(2, 3, 5, 8), T(2, 3, 5, 8), T(2, 3, 5, 8), None, 0.0, True;"
                 "T(2, 3, 5, 8), T(2, 3, 7, 8), T(2, 3, 7, 8), B(5, 7);"
                 "T(2, 3, 5, 8), T(1, 1, 7, 8), T(1, 1, 7, 8)",
                 Floats | Bool);
  // PyTorch's decomposition is for inference: it returns the weights in place
  // of the logarithms of the sums, which the backward pass reads. So the
  // operator stays whole.
  table.addWhole("_scaled_dot_product_flash_attention_for_cpu", lowerAttention,
                 "", Floats | Bool);
}
