//===- OwnCall.h - arguments and results of an operator of ours -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_OWNCALL_H
#define ANABRANCH_RUNTIME_OPERATORS_OWNCALL_H

#include "anabranch/HostCalls.h"
#include "anabranch/Layout.h"

#include <memory>
#include <string>
#include <vector>

namespace anabranch::runtime {

/// One call of an operator that the runtime runs. A package may be wrong about
/// its arguments, so each is looked at before it is used; the first that is
/// wrong fails the call.
class OwnCall {
public:
  OwnCall(HostCalls &host, const HostCall &call, HostResult *results)
      : host(host), call(call), results(results) {}

  /// The argument as a contiguous tensor. An empty one of rank zero after an
  /// error.
  TensorView tensor(const char *name);
  TensorView contiguous(const HostArgument &argument);
  /// The tensor with this shape, contiguous. Dimensions of one element are
  /// repeated, and missing ones are added in front.
  TensorView broadcast(const TensorView &view,
                       const std::vector<int64_t> &shape);
  bool has(const char *name) const;
  bool boolean(const char *name) const;
  bool isTensor(const char *name) const;
  int64_t integer(const char *name) const;
  /// The number, which may be an integer.
  double real(const char *name) const;
  /// The items of a list.
  const HostArgument *items(const char *name, size_t &count) const;

  bool wants(size_t result) const {
    return result < call.resultCount && call.wanted[result];
  }
  /// The memory of a contiguous result. Null after an error.
  void *make(size_t result, DType dtype, const std::vector<int64_t> &shape);

  /// Fails the call with the user's line.
  void fail(const std::string &what);
  void fail(Status failure);
  bool ok() const { return status.ok(); }
  /// The status of the call. Releases the results of one that failed.
  Status finish();

private:
  const HostArgument *find(const char *name) const;
  TensorView copyOf(const TensorView &view);

  HostCalls &host;
  const HostCall &call;
  HostResult *results;
  Status status;
  std::vector<std::unique_ptr<char[]>> copies;
};

std::vector<int64_t> shapeOf(const TensorView &tensor);

/// The product of the sizes from `first` to before `last`.
int64_t countOf(const int64_t *first, const int64_t *last);

/// The float or integer of an argument; else zero.
double realOf(const HostArgument &argument);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_OWNCALL_H
