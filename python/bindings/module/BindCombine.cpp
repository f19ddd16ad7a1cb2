//===- BindCombine.cpp - several packages become one ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Combine.h"
#include "module/Bind.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "tensors/Torch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

using State = std::pair<std::string, nb::object>;

/// The tensors stay the caller's, and are contiguous.
std::vector<StateValue> describe(const std::vector<State> &states) {
  std::vector<StateValue> values;
  for (const auto &[input, tensor] : states) {
    dlpack::Tensor view;
    if (!Torch::get().isTensor(tensor.ptr()))
      throw nb::type_error("state must be a tensor");
    if (!Torch::get().view(tensor.ptr(), view))
      throw nb::python_error();
    std::optional<DType> dtype = fromDLPack(view.dtype);
    if (!dtype)
      throw nb::type_error("state has a dtype that no program can have");
    values.push_back({input, *dtype,
                      std::vector<int64_t>(view.shape, view.shape + view.rank),
                      static_cast<char *>(view.data) + view.byteOffset});
  }
  return values;
}

void combine(const std::string &path,
             const std::vector<std::pair<std::string, std::string>> &targets,
             const std::string &signature, const std::vector<State> &state,
             bool replace) {
  CombineOptions options;
  options.signature = signature;
  options.state = describe(state);
  options.replace = replace;
  std::vector<TargetPackage> packages;
  packages.reserve(targets.size());
  for (const auto &[name, place] : targets)
    packages.push_back({name, place});
  Status status = [&] {
    GilReleased released;
    return combinePackages(path, packages, options);
  }();
  if (status.ok())
    return;
  setError(status);
  throw nb::python_error();
}

} // namespace

void python::bindCombine(nb::module_ &module) {
  module.def("combine", &combine, nb::arg("path"), nb::arg("targets"),
             nb::arg("signature") = "", nb::arg("state") = std::vector<State>(),
             nb::arg("replace") = false,
             "Makes one package of (target, package) pairs.");
}
