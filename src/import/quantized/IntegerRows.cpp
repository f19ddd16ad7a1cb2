//===- IntegerRows.cpp - products of quantised rows -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/quantized/IntegerRows.h"

#include "import/lowering/Contract.h"
#include "import/quantized/AffineIntegers.h"
#include "import/quantized/MatrixCall.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// Which steady tensors a value is computed from.
struct Sources {
  bool areSteady = true;
  bool haveBytes = false;
};

/// Follows the calls that compute a weight, which are few.
void findSources(LoweringBuilder &b, Value value, Sources &sources,
                 unsigned depth = 0) {
  constexpr unsigned mostCalls = 12;
  Operand tensor = b.tensor(value);
  auto call = value.getDefiningOp<ir::AtenOp>();
  if (!tensor.isTensor())
    return;
  if (!call || depth == mostCalls) {
    sources.areSteady &= tensor.isSteady();
    sources.haveBytes |= tensor.dtype.isByte() && tensor.rank() > 1;
    return;
  }
  for (Value input : call.getInputs())
    if (sources.areSteady)
      findSources(b, input, sources, depth + 1);
}

bool isMadeOfBytes(LoweringBuilder &b, Value weight) {
  Sources sources;
  findSources(b, weight, sources);
  return sources.areSteady && sources.haveBytes;
}

} // namespace

Value multiplyIntegerRows(LoweringBuilder &b, ir::AtenOp op) {
  std::optional<MatrixCall> call = MatrixCall::of(b, op);
  if (!call || call->rightRank() != 2 || !isMadeOfBytes(b, call->right))
    return Value();
  auto rows = AffineIntegers::find(b, call->left);
  if (!rows || !rows->isUniformAlong({call->leftDepth()}))
    return Value();
  Operand weight = b.tensor(call->right);
  DType dtype = weight.dtype, sumType = accumulatorOf(dtype);
  if (!sumType.type.isF32() || b.resultDType() != dtype)
    return Value();
  rows->makeSigned(b);
  Operand bytes = b.tensor(b.convert(rows->integers, dtype), dtype);
  SmallVector<Operand> operands = {
      b.tensor(call->contract(b, bytes, weight), sumType)};
  auto add = [&](const Operand &tensor) -> std::optional<size_t> {
    if (!tensor)
      return std::nullopt;
    operands.push_back(tensor);
    return operands.size() - 1;
  };
  std::optional<size_t> sums, zeros = add(rows->zeroTensor);
  if (rows->hasZero()) {
    // A product reads the weight in its few bits; a sum would unpack it.
    Sizes one = {b.indexAttr(1), b.sizeOf(weight.value, call->rightDepth())};
    Operand ones = b.tensor(b.fill(one, dtype, 1), dtype);
    sums = add(b.tensor(call->contract(b, ones, weight), sumType));
  }
  SmallVector<size_t> scales;
  for (const Operand &scale : rows->scaleTensors)
    scales.push_back(*add(scale));
  std::optional<size_t> bias = add(call->bias);
  return b.elementwiseMixed(
      operands, dtype, op.getResultSizes(), [&](Body &, ArrayRef<Num> x) {
        Num total = x[0];
        if (sums) {
          Num zero = total.constant(rows->zeroNumber);
          if (zeros)
            zero = zero + s::cast(x[*zeros], sumType);
          total = total - zero * x[*sums];
        }
        for (size_t scale : scales)
          total = total * s::cast(x[scale], sumType);
        if (rows->scaleNumber != 1)
          total = total * rows->scaleNumber;
        return bias ? total + s::cast(x[*bias], sumType) : total;
      });
}

} // namespace importer
} // namespace anabranch
