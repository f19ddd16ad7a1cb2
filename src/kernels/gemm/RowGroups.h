//===- RowGroups.h - rows of a tile that share a right operand --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_ROWGROUPS_H
#define ANABRANCH_KERNELS_GEMM_ROWGROUPS_H

#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

/// Emits `body` for rows of the context's tile that multiply one right operand.
/// Computes and checks the place of a gathered operand before. In a grouped
/// product, neighbouring rows whose right operand has the same address form a
/// group, of `most` rows if that is not 0. In others, all rows do.
void forEachGroup(GemmContext &gemm, int64_t most,
                  llvm::function_ref<void()> body);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_ROWGROUPS_H
