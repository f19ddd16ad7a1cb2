//===- OwnOperators.cpp - operators that the runtime runs -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/OwnOperators.h"

#include "runtime/operators/CountOperators.h"
#include "runtime/operators/HistogramOperators.h"
#include "runtime/operators/MaskOperators.h"
#include "runtime/operators/OwnCall.h"
#include "runtime/operators/SolveOperators.h"
#include "runtime/operators/SortOperators.h"
#include "runtime/operators/UniqueOperators.h"

#include <new>

namespace anabranch::runtime {

namespace {

struct Row {
  const char *name;
  OwnOperator run;
};

constexpr Row rows[] = {
    {"runtime::nonzero", runNonzero},
    {"runtime::nonzero_static", runNonzeroStatic},
    {"runtime::index", runIndex},
    {"runtime::masked_select", runMaskedSelect},
    {"runtime::index_put", runIndexPut},
    {"runtime::masked_scatter", runMaskedScatter},
    {"runtime::repeat_interleave", runRepeatInterleave},
    {"runtime::_unique2", runUnique},
    {"runtime::unique_dim", runUniqueDim},
    {"runtime::unique_consecutive", runUniqueConsecutive},
    {"runtime::bincount", runBincount},
    {"runtime::histc", runHistc},
    {"runtime::histogram", runHistogram},
    {"runtime::linalg_solve_triangular", runSolveTriangular},
    {"runtime::sort", runSort},
    {"runtime::topk", runTopK},
};

} // namespace

OwnOperator findOwnOperator(const std::string &name) {
  for (const Row &row : rows)
    if (name == row.name)
      return row.run;
  return nullptr;
}

Status runOwnOperator(OwnOperator run, HostCalls &host, const HostCall &call,
                      HostResult *results) {
  OwnCall own(host, call, results);
  try {
    run(own);
  } catch (const std::bad_alloc &) {
    own.fail(Status::outOfMemory());
  }
  return own.finish();
}

} // namespace anabranch::runtime
