//===- SolveOperators.h - systems of equations ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_SOLVEOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_SOLVEOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::linalg_solve_triangular(self, B, upper, left, unitriangular), in f32
/// and f64.
void runSolveTriangular(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_SOLVEOPERATORS_H
