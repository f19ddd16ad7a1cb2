//===- ExpandExtrema.h - maxima and minima of floats ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_EXPANDEXTREMA_H
#define ANABRANCH_CODEGEN_MATH_EXPANDEXTREMA_H

#include "mlir/IR/BuiltinOps.h"

namespace anabranch {
namespace codegen {

/// Replaces every arith.maximumf and arith.minimumf by a comparison and a
/// blend. The result is NaN if one operand is. Of two zeros it is either.
void expandExtrema(mlir::ModuleOp module);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_EXPANDEXTREMA_H
