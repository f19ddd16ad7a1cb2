//===- BindCompiler.cpp - compile a graph description ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "compile/CompilerLibrary.h"
#include "compile/ObjectCache.h"
#include "module/Bind.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "tensors/Torch.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

using Constant = std::tuple<std::string, std::string, nb::object>;

/// The compilations that run now. The interpreter waits for their end before it
/// goes: what LLVM keeps for the process would vanish below them.
class Running {
public:
  /// False when nothing may begin any more.
  bool enter() {
    std::lock_guard<std::mutex> guard(lock);
    count += !leaving;
    return !leaving;
  }
  void leave() {
    std::lock_guard<std::mutex> guard(lock);
    --count;
    ended.notify_all();
  }
  /// The step that runs is finished; no other begins.
  void stop() {
    std::unique_lock<std::mutex> guard(lock);
    leaving = true;
    ended.wait(guard, [&] { return count == 0; });
  }
  bool isLeaving() const { return leaving; }

  static Running &get() {
    // Never destroyed: a thread may be stopped in the middle of it. The child
    // of a fork has none of the threads.
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { current() = new Running; });
    (void)registered;
    return *current();
  }

private:
  static Running *&current() {
    static auto *running = new Running;
    return running;
  }

  std::mutex lock;
  std::condition_variable ended;
  std::atomic<bool> leaving{false};
  int count = 0;
};

struct Progress {
  PyObject *callback; ///< or null
};

/// Between two steps of the compiler: a Ctrl-C or an exception of the callback
/// cancels, and stays set until the compiler has unwound.
int onProgress(const char *phase, int64_t done, int64_t total, void *data) {
  if (Running::get().isLeaving())
    return 1;
  GilTaken gil;
  int cancel = PyErr_CheckSignals() != 0;
  PyObject *callback = static_cast<Progress *>(data)->callback;
  if (!cancel && callback) {
    PyObject *result = PyObject_CallFunction(callback, "sLL", phase,
                                             (long long)done, (long long)total);
    cancel = !result;
    Py_XDECREF(result);
  }
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
                         static_cast<char *>(view.data) + view.byteOffset,
                         isContiguous(view) ? nullptr : view.strides});
  }
  return described;
}

/// Returns (report, message); raises for anything but success.
std::pair<std::string, std::string>
compile(const std::string &graph, const std::vector<Constant> &constants,
        const std::string &options, const std::string &output,
        nb::object callback, const std::string &objects,
        const std::string &identity, const std::string &trust) {
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
  ObjectCache cache(objects, identity, trust);
  if (!objects.empty())
    request.objects = &cache.store;

  anabranch_compile_result *raw = nullptr;
  anabranch_compile_status status;
  {
    GilReleased released;
    if (!Running::get().enter())
      status = ANABRANCH_COMPILE_CANCELLED;
    else {
      status = library.compile(&request, &raw);
      Running::get().leave();
    }
  }
  std::unique_ptr<anabranch_compile_result, decltype(library.free)> result(
      raw, library.free);
  if (status == ANABRANCH_COMPILE_CANCELLED && Running::get().isLeaving())
    PyErr_SetNone(PyExc_SystemExit); // which ends a thread without a word
  else if (status != ANABRANCH_COMPILE_OK)
    setError(status, result ? library.message(raw) : "out of memory");
  if (status != ANABRANCH_COMPILE_OK)
    throw nb::python_error();
  return {library.report(raw), library.message(raw)};
}

} // namespace

void python::bindCompiler(nb::module_ &module) {
  module.def("compile", &compile, nb::arg("graph"), nb::arg("constants"),
             nb::arg("options"), nb::arg("output"),
             nb::arg("progress") = nb::none(), nb::arg("objects") = "",
             nb::arg("identity") = "", nb::arg("trust") = "",
             "Compiles a graph description into the package folder `output`; "
             "returns the report and the remarks. Kernels that are kept in the "
             "folder `objects` are not compiled again.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    GilReleased released;
    Running::get().stop();
  }));
  module.def("operator_table",
             [] { return CompilerLibrary::get().operatorTable(); });
  module.def("compiler_version",
             [] { return CompilerLibrary::get().version(); });
}
