//===- Combine.h - the function of a reduction ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_SCALAR_COMBINE_H
#define ANABRANCH_IMPORT_SCALAR_COMBINE_H

#include "import/scalar/Scalar.h"

namespace anabranch {
namespace importer {

/// The combining function of a reduction. Max and Min propagate NaN; And and Or
/// are for bool.
enum class Combine { Add, Mul, Max, Min, And, Or };

/// The value that changes no other value when combined with it.
Num identityOf(Body &body, Combine combine, DType dtype);

Num combineTwo(Combine combine, Num a, Num b);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_SCALAR_COMBINE_H
