//===- IntegerProduct.cpp - products of quantised tensors -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/quantized/IntegerProduct.h"

#include "import/lowering/Convolution.h"
#include "import/quantized/MatrixCall.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// One of the two operands of a product.
struct Side {
  AffineIntegers tensor;
  /// The dimensions over which products are summed.
  SmallVector<int64_t> depths;
  /// The dimensions of the result to which those of the tensor belong, for its
  /// scales and zero points. Empty: aligned at the last one.
  SmallVector<int64_t> positions;
  /// The sums of the integers over the depths, which broadcast to the result.
  /// None if no sum needs them.
  Operand sums;
};

/// Builds the value of one product.
class IntegerProduct {
public:
  IntegerProduct(LoweringBuilder &b, ir::AtenOp op, bool dotsBytes,
                 std::string &why)
      : b(b), op(op), dotsBytes(dotsBytes), why(why) {}

  Value multiply();

private:
  LoweringBuilder &b;
  ir::AtenOp op;
  const bool dotsBytes;
  std::string &why;
  Side left, right;
  Operand bias;
  int64_t depth = 0;
  bool areMultiplied = false; ///< the right sums, by the left zero point

  DType i32() const { return DType::integer(b.context(), 32); }

  Value multiplyMatrices(const MatrixCall &call);
  Value multiplyWindows();
  bool sumWindows(const Convolution &conv);
  bool findSides(Value first, Value second);
  bool fits();
  void makeMultipliable();
  Value sumsOf(const Side &side);
  void sumRight();
  Operand columnScale();
  Value finish(Operand sums);
  Value refuse(StringRef reason) {
    why = reason.str();
    return Value();
  }
};

bool IntegerProduct::findSides(Value first, Value second) {
  if (!first || !second || !isa<RankedTensorType>(first.getType()) ||
      !isa<RankedTensorType>(second.getType()))
    return false;
  auto a = AffineIntegers::find(b, first);
  auto w = a ? AffineIntegers::find(b, second) : std::nullopt;
  if (!w)
    return false;
  left.tensor = *a;
  right.tensor = *w;
  return true;
}

/// Processors multiply unsigned bytes by signed ones, or signed ones.
void IntegerProduct::makeMultipliable() {
  if (left.tensor.integers.dtype.isUnsigned &&
      right.tensor.integers.dtype.isUnsigned)
    right.tensor.makeSigned(b);
}

/// Whether the sums of products are exact in 32 bits, corrections included.
bool IntegerProduct::fits() {
  if (depth == ShapedType::kDynamic) {
    refuse("the depth is symbolic");
    return false;
  }
  if (!left.tensor.isUniformAlong(left.depths) ||
      !right.tensor.isUniformAlong(right.depths)) {
    refuse("a scale or a zero point changes along the depth");
    return false;
  }
  constexpr int64_t mostSum = std::numeric_limits<int32_t>::max();
  constexpr int64_t mostProduct = 255 * 128;
  auto first = left.tensor.largest(), second = right.tensor.largest();
  // Zero points without bounds are subtracted in f64.
  int64_t most = first && second ? *first * *second : mostProduct;
  if (depth > mostSum / most) {
    refuse("sums of so many products do not fit in 32 bits");
    return false;
  }
  return true;
}

/// The sums over the depths, which get size one.
Value IntegerProduct::sumsOf(const Side &side) {
  const Operand &integers = side.tensor.integers;
  Value sums = b.reduce(
      {integers}, b.sizesOf(integers.value), side.depths, Combine::Add, i32(),
      [&](Body &, ArrayRef<Num> x) { return s::cast(x[0], i32()); });
  return b.unsqueeze(sums, side.depths);
}

/// Makes the sums of the right operand's columns, if the zero point of the left
/// one needs them. Multiplied by a zero point that is a number, they are all
/// that it needs.
void IntegerProduct::sumRight() {
  if (!left.tensor.hasZero())
    return;
  right.sums = b.tensor(sumsOf(right), i32());
  if (left.tensor.zeroTensor || right.tensor.hasZero())
    return;
  int64_t zero = left.tensor.zeroNumber;
  right.sums.value = b.elementwiseMixed(
      {right.sums}, i32(), b.sizesOf(right.sums.value),
      [&](Body &, ArrayRef<Num> x) { return x[0] * x[0].constant(zero); });
  areMultiplied = true;
}

/// The scale of the columns with all numbers, made beforehand; none if several
/// tensors or none scale the columns.
Operand IntegerProduct::columnScale() {
  if (right.tensor.scaleTensors.size() != 1)
    return {};
  Operand scale = right.tensor.scaleTensors.front();
  double number = left.tensor.scaleNumber * right.tensor.scaleNumber;
  DType dtype = scale.dtype.math();
  Value made = b.elementwiseMixed(
      {scale}, dtype, b.sizesOf(scale.value),
      [&](Body &, ArrayRef<Num> x) { return x[0] * x[0].constant(number); });
  return b.tensor(made, dtype);
}

/// The dimensions of the result to which those of a tensor belong that
/// broadcasts to a side.
static SmallVector<int64_t> positionsOf(const Side &side,
                                        const Operand &tensor) {
  if (side.positions.empty())
    return {};
  return SmallVector<int64_t>(
      ArrayRef(side.positions).take_back(tensor.rank()));
}

/// The result, of sums of products in a dtype that is exact for them and for
/// their corrections.
Value IntegerProduct::finish(Operand sums) {
  SmallVector<Operand> operands = {sums};
  auto add = [&](const Side &side, Operand tensor) -> std::optional<size_t> {
    if (!tensor)
      return std::nullopt;
    tensor.positions = positionsOf(side, tensor);
    operands.push_back(tensor);
    return operands.size() - 1;
  };
  auto leftZero = add(left, left.tensor.zeroTensor);
  auto rightZero = add(right, right.tensor.zeroTensor);
  auto leftSums = add(left, left.sums), rightSums = add(right, right.sums);
  SmallVector<size_t> scales;
  for (const Operand &scale : left.tensor.scaleTensors)
    scales.push_back(*add(left, scale));
  double number = left.tensor.scaleNumber * right.tensor.scaleNumber;
  if (Operand scale = columnScale()) {
    scales.push_back(*add(right, scale));
    number = 1;
  } else {
    for (const Operand &factor : right.tensor.scaleTensors)
      scales.push_back(*add(right, factor));
  }
  std::optional<size_t> biasAt;
  if (bias) {
    operands.push_back(bias);
    biasAt = operands.size() - 1;
  }
  bool isExact = left.tensor.largest() && right.tensor.largest();
  DType whole = isExact ? sums.dtype : DType::f64(b.context());
  DType result = b.resultDType(), real = result.math();
  return b.elementwiseMixed(
      operands, result, op.getResultSizes(), [&](Body &body, ArrayRef<Num> x) {
        auto zeroOf = [&](const Side &side, std::optional<size_t> at) {
          Num zero = s::constant(body, whole, side.tensor.zeroNumber);
          return at ? zero + s::cast(x[*at], whole) : zero;
        };
        Num zero = zeroOf(left, leftZero), other = zeroOf(right, rightZero);
        Num total = s::cast(x[0], whole);
        if (rightSums) {
          Num columns = s::cast(x[*rightSums], whole);
          total = total - (areMultiplied ? columns : zero * columns);
        }
        if (leftSums)
          total = total - other * s::cast(x[*leftSums], whole);
        if (leftSums && rightSums)
          total = total + zero * other * s::constant(body, whole, depth);
        Num value = s::cast(total, real);
        SmallVector<Num> factors;
        for (size_t scale : scales)
          factors.push_back(s::cast(x[scale], real));
        if (number != 1 || factors.empty())
          factors.push_back(value.constant(number));
        Num last = factors.pop_back_val();
        for (Num factor : factors)
          value = value * factor;
        return biasAt ? s::multiplyAdd(value, last, s::cast(x[*biasAt], real))
                      : value * last;
      });
}

Value IntegerProduct::multiplyMatrices(const MatrixCall &call) {
  if (!findSides(call.left, call.right))
    return Value();
  // Weights of four bits have a kernel that reads them in half a byte.
  if (right.tensor.fitsFourBits())
    return Value();
  left.depths = {call.leftDepth()};
  right.depths = {call.rightDepth()};
  if (call.hasRowsOfRight)
    right.positions.assign(2, call.leftRank() - 1);
  depth = call.depth();
  bias = call.bias;
  makeMultipliable();
  if (!fits())
    return Value();
  sumRight();
  if (right.tensor.hasZero())
    left.sums = b.tensor(sumsOf(left), i32());
  Value sums = call.contract(b, left.tensor.integers, right.tensor.integers);
  return finish(b.tensor(sums, i32()));
}

Value IntegerProduct::multiplyWindows() {
  FailureOr<Convolution> conv = convolutionOf(op, b);
  if (failed(conv) || conv->transposed ||
      !findSides(conv->input.value, conv->weight.value))
    return Value();
  for (int64_t dim = 1; dim < conv->input.rank(); ++dim) {
    left.depths.push_back(dim);
    right.depths.push_back(dim);
  }
  right.positions.assign(conv->weight.rank(), 1);
  depth = conv->channels() * conv->taps();
  makeMultipliable();
  if (!fits())
    return Value();
  auto isZero = [](int64_t pad) { return pad == 0; };
  int64_t zero = left.tensor.zeroNumber;
  int64_t least = left.tensor.integers.dtype.isUnsigned ? 0 : -128;
  if (!llvm::all_of(conv->padding, isZero) &&
      (left.tensor.zeroTensor || zero < least || zero > least + 255))
    return refuse("its padding is no byte that is known");
  sumRight();
  bias = conv->bias;
  if (bias)
    bias.positions = {1};
  conv->bias = {};
  conv->input = left.tensor.integers;
  conv->weight = right.tensor.integers;
  conv->dotsBytes = dotsBytes && conv->input.dtype.isUnsigned !=
                                     conv->weight.dtype.isUnsigned;
  // Sums of few taps and their corrections are exact in f32.
  bool addsFloats = isDepthwise(*conv) && !conv->dotsBytes;
  conv->result = addsFloats ? DType::f32(b.context()) : i32();
  conv->padValue = static_cast<double>(zero);
  if (right.tensor.hasZero() && !sumWindows(*conv))
    return refuse("the weight's zero points are not known to be zero");
  return finish(b.tensor(convolve(b, *conv), conv->result));
}

/// The sums of the integers in each window, [N, 1, points...], or those of each
/// channel. False for windows that are too large, and for other groups.
bool IntegerProduct::sumWindows(const Convolution &conv) {
  Convolution sum = conv;
  Sizes ones = b.sizesOf(conv.weight.value);
  if (isDepthwise(conv)) {
    sum.weight.value = b.fill(ones, conv.weight.dtype, 1);
    left.sums = b.tensor(depthwise(b, sum), conv.result);
    return true;
  }
  if (conv.groups != 1 || !hasFewTaps(conv))
    return false;
  // The sums over the channels, then the sums over the taps.
  Side image{left.tensor, {1}, {}, {}};
  sum.input = b.tensor(sumsOf(image), i32());
  ones[0] = ones[1] = b.indexAttr(1);
  sum.weight = b.tensor(b.fill(ones, i32(), 1), i32());
  sum.sizes[1] = b.indexAttr(1);
  sum.dotsBytes = false;
  sum.padValue = conv.padValue * static_cast<double>(conv.channels());
  left.sums = b.tensor(depthwise(b, sum), i32());
  return true;
}

Value IntegerProduct::multiply() {
  if (op.getCallee() == "convolution" && !op.getOrdered())
    return multiplyWindows();
  std::optional<MatrixCall> call = MatrixCall::of(b, op);
  return call ? multiplyMatrices(*call) : Value();
}

} // namespace

Value multiplyIntegers(LoweringBuilder &b, ir::AtenOp op, bool dotsBytes,
                       std::string &why) {
  return IntegerProduct(b, op, dotsBytes, why).multiply();
}

} // namespace importer
} // namespace anabranch
