//===- NormalCdf.cpp - the normal distribution in the place of erf --------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/NormalCdf.h"

#include "mlir/IR/Matchers.h"
#include "native/math/MathBuilder.h"
#include "native/math/MathCoefficients.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr double root2 = 0x1.6a09e667f3bcdp+0;

/// Whether `value` is a constant that rounds to the float `number`.
bool isNumber(Value value, double number) {
  FloatAttr attr;
  DenseFPElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat())
    return elements.getSplatValue<APFloat>().convertToFloat() == float(number);
  return matchPattern(value, m_Constant(&attr)) &&
         attr.getValue().convertToFloat() == float(number);
}

/// The only user of `erf`, if it adds one; else null.
arith::AddFOp onePlus(math::ErfOp erf) {
  if (!erf->hasOneUse())
    return {};
  auto sum = dyn_cast<arith::AddFOp>(*erf->user_begin());
  if (!sum || sum.getLhs() == sum.getRhs())
    return {};
  Value other = sum.getLhs() == erf.getResult() ? sum.getRhs() : sum.getLhs();
  return isNumber(other, 1) ? sum : arith::AddFOp();
}

/// The x of x / sqrt(2), for z = x / sqrt(2).
Value undivided(const MathBuilder &m, Value z) {
  if (auto product = z.getDefiningOp<arith::MulFOp>())
    for (unsigned i : {0, 1})
      if (isNumber(product->getOperand(i), 1 / root2))
        return product->getOperand(1 - i);
  if (auto quotient = z.getDefiningOp<arith::DivFOp>())
    if (isNumber(quotient.getRhs(), root2))
      return quotient.getLhs();
  return m.mul(z, m.number(root2));
}

/// 1 + erf(x / sqrt(2)). Polynomials around the multiples of 13/32 give 2 minus
/// the result at |x|, which is the result at -|x|. The last polynomial is zero,
/// as the result in floats is from there on.
template <size_t N>
Value twiceNormalCdf(const MathBuilder &m, Value x,
                     const float (&table)[N][16]) {
  constexpr double step = 13.0 / 32;
  Value a = m.atMost(m.abs(x), m.number(15 * step));
  MathBuilder::Rounded n = m.roundToBits(a, 1 / step);
  Value t = m.fma(n.number, m.number(-step), a);
  Value tail = m.polynomial(t, table, n.low);
  Value isPositive = m.less(m.number(0), x);
  return m.select(isPositive, m.sub(m.number(2), tail), tail);
}

} // namespace

bool replaceByNormalCdf(math::ErfOp erf, OpBuilder &builder,
                        const TargetInfo &target) {
  MathBuilder m(builder, erf.getLoc(), erf.getType(), target);
  arith::AddFOp sum = m.hasLookup() ? onePlus(erf) : arith::AddFOp();
  if (!sum)
    return false;
  builder.setInsertionPoint(sum);
  Value x = undivided(m, erf.getOperand());
  bool isBrief =
      bitEnumContainsAny(erf.getFastmath(), arith::FastMathFlags::afn);
  Value result = isBrief ? twiceNormalCdf(m, x, coefficients::normalTableBrief)
                         : twiceNormalCdf(m, x, coefficients::normalTable);
  sum.getResult().replaceAllUsesWith(result);
  sum.erase();
  erf.erase();
  return true;
}

} // namespace native
} // namespace anabranch
