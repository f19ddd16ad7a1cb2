//===- BindCompiler.cpp - compile a graph description ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "Bind.h"
#include "CompilerLibrary.h"
#include "Errors.h"
#include "Torch.h"

#include <memory>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

using Constant = std::tuple<std::string, std::string, nb::object>;

struct Progress {
  PyObject *callback; ///< or null
};

/// Between two steps of the compiler: a Ctrl-C or an exception of the callback
/// cancels, and stays set until the compiler has unwound.
int onProgress(const char *phase, int64_t done, int64_t total, void *data) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int cancel = PyErr_CheckSignals() != 0;
  PyObject *callback = static_cast<Progress *>(data)->callback;
  if (!cancel && callback) {
    PyObject *result = PyObject_CallFunction(callback, "sLL", phase,
                                             (long long)done, (long long)total);
    cancel = !result;
    Py_XDECREF(result);
  }
  PyGILState_Release(gil);
  return cancel;
}

std::vector<anabranch_constant> describe(const std::vector<Constant> &constants,
                                         std::vector<dlpack::Tensor> &views) {
  std::vector<anabranch_constant> described;
  views.resize(constants.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    const auto &[name, dtype, tensor] = constants[i];
    dlpack::Tensor &view = views[i];
    if (!Torch::get().isTensor(tensor.ptr()))
      throw nb::type_error("a constant must be a tensor");
    if (!Torch::get().view(tensor.ptr(), view))
      throw nb::python_error();
    described.push_back({name.c_str(), dtype.c_str(), view.rank, view.shape,
                         static_cast<char *>(view.data) + view.byteOffset});
  }
  return described;
}

/// Returns (report, message); raises for anything but success.
std::pair<std::string, std::string>
compile(const std::string &graph, const std::vector<Constant> &constants,
        const std::string &options, const std::string &output,
        nb::object callback) {
  const CompilerLibrary &library = CompilerLibrary::get();
  std::vector<dlpack::Tensor> views;
  std::vector<anabranch_constant> described = describe(constants, views);
  Progress progress = {callback.is_none() ? nullptr : callback.ptr()};
  anabranch_compile_request request = {};
  request.api_version = ANABRANCH_COMPILER_API_VERSION;
  request.graph = graph.data();
  request.graph_size = graph.size();
  request.constants = described.data();
  request.constant_count = described.size();
  request.options = options.c_str();
  request.output = output.c_str();
  request.progress = onProgress;
  request.user_data = &progress;

  anabranch_compile_result *raw = nullptr;
  anabranch_compile_status status;
  {
    nb::gil_scoped_release release;
    status = library.compile(&request, &raw);
  }
  std::unique_ptr<anabranch_compile_result, decltype(library.free)> result(
      raw, library.free);
  if (status != ANABRANCH_COMPILE_OK) {
    setError(status, result ? library.message(raw) : "out of memory");
    throw nb::python_error();
  }
  return {library.report(raw), library.message(raw)};
}

} // namespace

void python::bindCompiler(nb::module_ &module) {
  module.def("compile", &compile, nb::arg("graph"), nb::arg("constants"),
             nb::arg("options"), nb::arg("output"),
             nb::arg("progress") = nb::none(),
             "Compiles a graph description into the package folder `output`; "
             "returns the report and the remarks.");
  module.def("operator_table",
             [] { return CompilerLibrary::get().operatorTable(); });
  module.def("compiler_version",
             [] { return CompilerLibrary::get().version(); });
}
