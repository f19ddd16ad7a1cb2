//===- NormalPower.cpp - powers of two without special cases --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/NormalPower.h"

#include "native/math/MathBuilder.h"
#include "native/math/MathCoefficients.h"

using namespace mlir;

namespace anabranch {
namespace native {

static constexpr StringLiteral factorAttr = "anabranch.power_factor";
static constexpr StringLiteral narrowAttr = "anabranch.narrow_power";

Value makeNormalPower(OpBuilder &b, Location loc, Value x, double factor,
                      PowerDigits digits) {
  Type type = x.getType(), element = getElementTypeOrSelf(type);
  auto power = b.create<math::Exp2Op>(loc, x);
  if (element.isF32()) {
    power->setAttr(factorAttr, b.getF64FloatAttr(factor));
    if (digits == PowerDigits::BF16)
      power->setAttr(narrowAttr, b.getUnitAttr());
    return power;
  }
  b.setInsertionPoint(power);
  TypedAttr number = b.getFloatAttr(element, factor);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, Attribute(number));
  power.setOperand(b.create<arith::MulFOp>(
      loc, x, b.create<arith::ConstantOp>(loc, number)));
  b.setInsertionPointAfter(power);
  return power;
}

Value expandNormalPower(const MathBuilder &m, math::Exp2Op power) {
  auto factor = power->getAttrOfType<FloatAttr>(factorAttr);
  if (!factor)
    return Value();
  Value x = power.getOperand();
  double number = factor.getValueAsDouble();
  MathBuilder::Rounded n = m.roundToBits(x, number);
  Value r = m.fma(x, m.number(number), m.neg(n.number));
  Value slope = power->hasAttr(narrowAttr)
                    ? m.polynomial(r, coefficients::exp2m1Narrow)
                    : m.polynomial(r, coefficients::exp2m1);
  Value p = m.fma(r, slope, m.number(1));
  if (m.hasScale())
    return m.scale(p, n.number);
  // Both powers are normal numbers, so the exponents are added.
  return m.fromBits(m.addBits(m.bits(p), m.shiftLeft(n.low, m.mantissaBits())));
}

} // namespace native
} // namespace anabranch
