//===- AffineIntegers.cpp - tensors that stand for integers ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/quantized/AffineIntegers.h"

#include "import/lowering/Moves.h"
#include "import/lowering/Shapes.h"
#include "ir/SteadyInput.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// Sums in 32 bits have room for zero points up to this.
constexpr double mostZero = 1 << 20;
/// All floats have the integers up to this.
constexpr int64_t mostExact = 256;

/// Whether each element of the result is an element of `self`.
bool isView(ir::AtenOp op) {
  static const llvm::StringSet<> views = {"view",
                                          "_unsafe_view",
                                          "reshape",
                                          "permute",
                                          "t",
                                          "expand",
                                          "unsqueeze",
                                          "transpose.int",
                                          "squeeze",
                                          "squeeze.dim",
                                          "squeeze.dims",
                                          "slice.Tensor",
                                          "flatten.using_ints"};
  return views.contains(op.getCallee());
}

/// Whether the call picks the greatest elements and returns no places.
bool isMaxPool(ir::AtenOp op) {
  return (op.getCallee() == "max_pool2d_with_indices" ||
          op.getCallee() == "max_pool3d_with_indices") &&
         op.getNumResults() == 2 && op.getResult(1).use_empty();
}

/// Whether a conversion keeps the values of small integers. Floats that become
/// integers lose digits; integers that become narrow may wrap around.
bool keepsIntegers(DType from, DType to) {
  return to.isFloat() ? from.isFloat() || from.isInt()
                      : from.isInt() && to.isInt() && to.width() > 8;
}

/// The operand of a view, or of a conversion that keeps small integers: the
/// result holds the same ones. Null for other calls.
Value sameIntegersOperand(ir::AtenOp op) {
  if (!op || op.getOrdered() || op.getNumResults() != 1)
    return Value();
  if (isView(op))
    return op.getOperandArg("self");
  Value source = convertedBy(op);
  if (!source)
    return Value();
  DType from{getElementTypeOrSelf(source.getType()), op.isUnsigned(source)};
  DType to{getElementTypeOrSelf(op.getResult(0).getType()),
           op.isUnsignedResult(0)};
  return keepsIntegers(from, to) ? source : Value();
}

/// Follows products and conversions from a tensor to its integers.
class Finder {
public:
  explicit Finder(LoweringBuilder &b) : b(b) {}

  std::optional<AffineIntegers> find(Value tensor, unsigned depth = 0);

private:
  using Found = std::optional<AffineIntegers>;

  LoweringBuilder &b;

  Found read(const Operand &tensor, unsigned depth);
  Found converted(ir::AtenOp op, unsigned depth);
  Found viewed(ir::AtenOp op, unsigned depth);
  Found pooled(ir::AtenOp op, unsigned depth);
  void callOnIntegers(ir::AtenOp op, Operand &integers);
  Found scaled(ir::AtenOp op, unsigned depth);
  Found shifted(ir::AtenOp op, unsigned depth);
  bool scale(AffineIntegers &integers, const Operand &factor);
  bool follow(ir::AtenOp view, const Operand &integers, Operand &tensor);
};

/// A dequantised tensor has no more operators than this one after another. The
/// search follows both factors of a product, so it needs an end.
constexpr unsigned mostOperators = 8;

Finder::Found Finder::find(Value tensor, unsigned depth) {
  auto op = tensor.getDefiningOp<ir::AtenOp>();
  if (!op || op.getOrdered() || depth == mostOperators)
    return std::nullopt;
  if (isMaxPool(op))
    return pooled(op, depth + 1);
  if (op.getNumResults() != 1)
    return std::nullopt;
  if (convertedBy(op))
    return converted(op, depth + 1);
  if (isView(op))
    return viewed(op, depth + 1);
  if (op.getCallee() == "mul.Tensor" || op.getCallee() == "mul.Scalar")
    return scaled(op, depth + 1);
  if (op.getCallee() == "sub.Tensor" || op.getCallee() == "sub.Scalar")
    return shifted(op, depth + 1);
  return std::nullopt;
}

/// The integers that an operand stands for: bytes stand for themselves.
Finder::Found Finder::read(const Operand &tensor, unsigned depth) {
  if (!tensor.dtype.isByte())
    return find(tensor.value, depth);
  AffineIntegers found;
  found.integers = tensor;
  return found;
}

Finder::Found Finder::converted(ir::AtenOp op, unsigned depth) {
  LoweringBuilder of(b.builder, op);
  Value source = sameIntegersOperand(op);
  if (!source)
    return std::nullopt;
  return read(of.tensor(source, op.isUnsigned(source)), depth);
}

/// The order in which a call gives the dimensions of its tensor; none if it is
/// no permutation.
std::optional<SmallVector<int64_t>> orderOf(ir::AtenOp op, int64_t rank) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto swapped = [&](int64_t first, int64_t second) {
    std::swap(order[LoweringBuilder::wrapDim(first, rank)],
              order[LoweringBuilder::wrapDim(second, rank)]);
    return order;
  };
  if (op.getCallee() == "t")
    return rank == 2 ? swapped(0, 1) : order;
  if (op.getCallee() == "transpose.int") {
    auto first = op.getIntArg("dim0"), second = op.getIntArg("dim1");
    if (!first || !second || rank == 0)
      return std::nullopt;
    return swapped(*first, *second);
  }
  auto dims = op.getIntListArg("dims");
  if (op.getCallee() != "permute" || !dims)
    return std::nullopt;
  for (int64_t &dim : *dims)
    dim = LoweringBuilder::wrapDim(dim, rank);
  return dims;
}

/// Whether a view changes the dimensions before the last one at most, and keeps
/// the order of the elements.
bool keepsRows(ir::AtenOp view, RankedTensorType source) {
  StringRef callee = view.getCallee();
  auto result = cast<RankedTensorType>(view.getResult(0).getType());
  return (callee == "view" || callee == "_unsafe_view" || callee == "reshape" ||
          callee == "flatten.using_ints") &&
         source.getRank() > 0 && result.getRank() > 0 &&
         !source.isDynamicDim(source.getRank() - 1) &&
         source.getShape().back() == result.getShape().back();
}

/// Applies a view of the integers to a tensor of their scale or zero point.
/// False if it does not follow the view.
bool Finder::follow(ir::AtenOp view, const Operand &integers, Operand &tensor) {
  int64_t rank = integers.rank();
  auto viewed = cast<RankedTensorType>(view.getResult(0).getType());
  if (tensor.rank() == 0 || (viewed.hasStaticShape() &&
                             viewed.getShape() == integers.type().getShape()))
    return true;
  if (tensor.rank() != rank)
    return false;
  if (auto order = orderOf(view, rank)) {
    tensor.value = transpose(b, tensor.value, *order);
    return true;
  }
  Sizes rows = b.sizesOf(integers.value);
  rows.back() = b.indexAttr(1);
  Sizes own = b.sizesOf(tensor.value);
  if (!keepsRows(view, integers.type()) ||
      !llvm::all_of(llvm::zip(own, rows), [](auto sizes) {
        return sameSize(std::get<0>(sizes), std::get<1>(sizes));
      }))
    return false;
  Sizes sizes = view.getResultSizes();
  sizes.back() = b.indexAttr(1);
  tensor.value = reshape(b.builder, b.loc, tensor.value, sizes);
  return true;
}

/// The same view of the integers.
Finder::Found Finder::viewed(ir::AtenOp op, unsigned depth) {
  Value source = sameIntegersOperand(op);
  Found found = source ? find(source, depth) : std::nullopt;
  if (!found)
    return std::nullopt;
  auto follows = [&](Operand &tensor) {
    return follow(op, found->integers, tensor);
  };
  if ((found->zeroTensor && !follows(found->zeroTensor)) ||
      !llvm::all_of(found->scaleTensors, follows))
    return std::nullopt;
  callOnIntegers(op, found->integers);
  return found;
}

/// The pool of the integers, whose order is that of the numbers.
Finder::Found Finder::pooled(ir::AtenOp op, unsigned depth) {
  Value self = op.getOperandArg("self");
  Found found = self ? find(self, depth) : std::nullopt;
  if (!found || found->zeroTensor || !found->scaleTensors.empty() ||
      !(found->scaleNumber > 0))
    return std::nullopt;
  callOnIntegers(op, found->integers);
  return found;
}

/// Replaces integers by the first result of a call of one tensor that reads
/// them in its place.
void Finder::callOnIntegers(ir::AtenOp op, Operand &integers) {
  IRMapping mapping;
  mapping.map(op.getOperandArg("self"), integers.value);
  auto call = cast<ir::AtenOp>(b.builder.clone(*op, mapping));
  Value result = call.getResult(0);
  result.setType(
      cast<RankedTensorType>(result.getType()).clone(integers.dtype.type));
  SmallVector<int64_t> first;
  if (integers.dtype.isUnsigned)
    first.push_back(0);
  SmallVector<int64_t> operands;
  for (auto [i, operand] : llvm::enumerate(call.getInputs()))
    if (!first.empty() && operand == integers.value)
      operands.push_back(static_cast<int64_t>(i));
  call.setUnsignedOperands(operands);
  call.setUnsignedResults(first);
  integers.value = result;
}

/// Whether each element is a whole number, as far as its operators show.
bool isWhole(const Operand &tensor) {
  if (tensor.dtype.isInt())
    return true;
  auto op = tensor.value.getDefiningOp<ir::AtenOp>();
  Value source = sameIntegersOperand(op);
  Operand from = tensor;
  from.value = source;
  if (source)
    from.dtype = {getElementTypeOrSelf(source.getType()),
                  op.isUnsigned(source)};
  return source && isWhole(from);
}

/// The one number that all elements are known to be. It is one that no
/// conversion rounds.
std::optional<int64_t> knownNumber(Value tensor) {
  while (Value source = sameIntegersOperand(tensor.getDefiningOp<ir::AtenOp>()))
    tensor = source;
  auto range = ir::rangeOf(tensor);
  if (!range || range->first != range->second ||
      std::abs(range->first) > mostExact)
    return std::nullopt;
  return range->first;
}

std::optional<double> literalOf(const Operand &scalar) {
  if (auto real = dyn_cast_or_null<FloatAttr>(scalar.literal))
    return real.getValueAsDouble();
  auto integer = dyn_cast_or_null<IntegerAttr>(scalar.literal);
  if (integer && !integer.getType().isInteger(1))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

/// Multiplies by a factor; false if it is no possible scale.
bool Finder::scale(AffineIntegers &integers, const Operand &factor) {
  if (std::optional<double> number = literalOf(factor)) {
    integers.scaleNumber *= *number;
    return true;
  }
  if (!factor || !factor.isTensor() || !factor.dtype.isFloat() ||
      factor.rank() > integers.integers.rank())
    return false;
  integers.scaleTensors.push_back(factor);
  return true;
}

Finder::Found Finder::scaled(ir::AtenOp op, unsigned depth) {
  LoweringBuilder of(b.builder, op);
  if (!of.resultDType().isFloat())
    return std::nullopt;
  Operand self = of.operand("self"), other = of.operand("other");
  for (const auto &[inner, factor] :
       {std::pair(self, other), std::pair(other, self)})
    if (inner && inner.isTensor() &&
        inner.type().getShape() == of.resultType().getShape())
      if (Found found = read(inner, depth))
        return scale(*found, factor) ? found : std::nullopt;
  return std::nullopt;
}

Finder::Found Finder::shifted(ir::AtenOp op, unsigned depth) {
  LoweringBuilder of(b.builder, op);
  Operand self = of.operand("self"), zero = of.operand("other");
  Operand alpha = of.operand("alpha");
  if (!self || !zero || !self.isTensor() ||
      (alpha && literalOf(alpha) != 1.0) ||
      self.type().getShape() != of.resultType().getShape())
    return std::nullopt;
  DType difference = of.resultDType();
  bool keeps = difference.isFloat() || difference.width() > 8;
  Found found = keeps ? read(self, depth) : std::nullopt;
  if (!found || found->hasZero() || found->scaleNumber != 1 ||
      !found->scaleTensors.empty())
    return std::nullopt;
  std::optional<double> number = literalOf(zero);
  if (number) {
    if (std::trunc(*number) != *number || std::abs(*number) > mostZero)
      return std::nullopt;
    found->zeroNumber = static_cast<int64_t>(*number);
    return found;
  }
  if (!zero.isTensor() || !isWhole(zero) ||
      zero.rank() > found->integers.rank())
    return std::nullopt;
  std::optional<int64_t> known = knownNumber(zero.value);
  if (known)
    found->zeroNumber = *known;
  else
    found->zeroTensor = zero;
  return found;
}

} // namespace

Value convertedBy(ir::AtenOp op) {
  if (op.getCallee() == "_to_copy")
    return op.getOperandArg("self");
  if (op.getCallee() == "prims::convert_element_type")
    return op.getOperandArg("a");
  return Value();
}

std::optional<AffineIntegers> AffineIntegers::find(LoweringBuilder &b,
                                                   Value tensor) {
  return Finder(b).find(tensor);
}

bool AffineIntegers::fitsFourBits() const {
  auto range = ir::rangeOf(integers.value);
  return range && range->second - range->first < 16;
}

bool AffineIntegers::isUniformAlong(ArrayRef<int64_t> dims) const {
  auto isUniform = [&](const Operand &tensor) {
    int64_t missing = integers.rank() - tensor.rank();
    return llvm::all_of(dims, [&](int64_t dim) {
      return dim < missing || tensor.size(dim - missing) == 1;
    });
  };
  return (!zeroTensor || isUniform(zeroTensor)) &&
         llvm::all_of(scaleTensors, isUniform);
}

void AffineIntegers::makeSigned(LoweringBuilder &b) {
  if (!integers.dtype.isUnsigned)
    return;
  constexpr int64_t half = 128;
  DType byte = DType::integer(b.context(), 8);
  // The difference of unsigned bytes wraps around to the signed one.
  Value moved = b.elementwiseMixed(
      {integers}, integers.dtype, b.sizesOf(integers.value),
      [&](Body &, ArrayRef<Num> x) { return x[0] - x[0].constant(half); });
  integers = b.tensor(moved, byte);
  zeroNumber -= half;
}

std::optional<int64_t> AffineIntegers::largest() const {
  constexpr int64_t mostByte = 255, mostSignedByte = 128;
  if (zeroTensor && zeroTensor.dtype.width() > 8)
    return std::nullopt;
  int64_t most = integers.dtype.isUnsigned ? mostByte : mostSignedByte;
  return most + std::abs(zeroNumber) + (zeroTensor ? mostByte : 0);
}

} // namespace importer
} // namespace anabranch
