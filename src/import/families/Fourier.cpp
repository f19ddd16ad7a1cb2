//===- Fourier.cpp - Fourier transforms of parts --------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Capture takes torch.fft's operators apart, into transforms along one
// dimension, whose complex numbers are two real tensors
// (capture/complex_parts).

#include "import/lowering/OpTable.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// A part of a complex result: the transform's tensor has both, one after the
/// other.
static Value partOf(LoweringBuilder &b, Value both, unsigned part) {
  Sizes sizes = b.resultSizes(part);
  Sizes offsets(sizes.size() + 1, b.indexAttr(0));
  Sizes steps(sizes.size() + 1, b.indexAttr(1));
  offsets[0] = b.indexAttr(part);
  sizes.insert(sizes.begin(), b.indexAttr(1));
  return b.create<tensor::ExtractSliceOp>(b.resultType(part), both, offsets,
                                          sizes, steps);
}

static Lowered lowerFourier(ir::AtenOp op, LoweringBuilder &b) {
  bool toReal = op.getNumResults() == 1;
  Operand real = b.operand(toReal || op.getOperandArg("im") ? "re" : "self");
  Operand imaginary = b.operand("im");
  if (real.rank() == 0)
    return b.refuse("a number");
  RankedTensorType type = b.resultType();
  SmallVector<int64_t> shape(type.getShape());
  if (!toReal)
    shape.insert(shape.begin(), 2);
  SmallVector<Value> dims;
  for (OpFoldResult size : b.resultSizes())
    if (auto dim = dyn_cast<Value>(size))
      dims.push_back(dim);
  auto integer = [&](int64_t value) {
    return b.builder.getI64IntegerAttr(value);
  };
  auto flag = [&](bool isSet) {
    return isSet ? b.builder.getUnitAttr() : UnitAttr();
  };
  int64_t dim = b.wrapDim(op.getIntArg("dim").value_or(-1), real.rank());
  auto made = b.create<ir::FftOp>(
      RankedTensorType::get(shape, type.getElementType()), real.value,
      imaginary.value, dims, integer(dim),
      integer(op.getIntArg("norm").value_or(0)),
      flag(op.getBoolArg("inverse").value_or(false)), flag(toReal));
  if (toReal)
    return lowered(made.getResult());
  return SmallVector<Value>{partOf(b, made.getResult(), 0),
                            partOf(b, made.getResult(), 1)};
}

void registerFourier(OpTable &table) {
  table.family("fourier");
  DTypeSet dtypes = F32 | F64;
  table.add("anabranch::fft_complex", lowerFourier, "", dtypes);
  table.add("anabranch::fft_real_to_half", lowerFourier, "", dtypes);
  table.add("anabranch::fft_half_to_real", lowerFourier, "", dtypes);
}

} // namespace importer
} // namespace anabranch
