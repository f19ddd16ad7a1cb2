//===- Combine.cpp - the function of a reduction --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/scalar/Combine.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

Num identityOf(Body &body, Combine combine, DType dtype) {
  auto extreme = [&](bool largest) {
    if (dtype.isFloat()) {
      double infinity = std::numeric_limits<double>::infinity();
      return s::constant(body, dtype, largest ? infinity : -infinity);
    }
    bool isUnsigned = dtype.isUnsigned || dtype.isBool();
    unsigned width = dtype.width();
    APInt bits = isUnsigned ? (largest ? APInt::getMaxValue(width)
                                       : APInt::getMinValue(width))
                            : (largest ? APInt::getSignedMaxValue(width)
                                       : APInt::getSignedMinValue(width));
    return s::constant(body, dtype, bits.getSExtValue());
  };
  switch (combine) {
  case Combine::Add:
  case Combine::Or:
    return s::constant(body, dtype, int64_t(0));
  case Combine::Mul:
  case Combine::And:
    return s::constant(body, dtype, int64_t(1));
  case Combine::Max:
    return extreme(/*largest=*/false);
  case Combine::Min:
    return extreme(/*largest=*/true);
  }
  llvm_unreachable("all cases are covered");
}

Num combineTwo(Combine combine, Num a, Num b) {
  switch (combine) {
  case Combine::Add:
    return a + b;
  case Combine::Mul:
    return a * b;
  case Combine::Max:
    return s::maximum(a, b);
  case Combine::Min:
    return s::minimum(a, b);
  case Combine::And:
    return a & b;
  case Combine::Or:
    return a | b;
  }
  llvm_unreachable("all cases are covered");
}

} // namespace importer
} // namespace anabranch
