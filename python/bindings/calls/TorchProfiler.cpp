//===- TorchProfiler.cpp - our slices in torch.profiler -------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// libtorch's stable C functions make ranges like those of `record_function`.
// Whether a profiler runs is what PyTorch's own generated code asks: a variable
// of torch.autograd.profiler.

#include "calls/TorchProfiler.h"
#include "anabranch/Trace.h"

#include <Python.h>
#include <cstdint>
#include <dlfcn.h>

using namespace anabranch;

namespace {

class TorchProfiler : public SliceListener {
public:
  /// Lives until the process ends, since calls in flight may hold it.
  static TorchProfiler &get() {
    static TorchProfiler *const profiler = new TorchProfiler;
    return *profiler;
  }

  void follow() {
    bool wanted = variables && PyDict_GetItem(variables, isEnabled) == Py_True;
    if (wanted == listening)
      return;
    listening = wanted;
    setSliceListener(wanted ? this : nullptr);
  }

  void *begin(const char *name) override {
    void *range = nullptr;
    return start(name, nullptr, nullptr, 0, &range) == 0 ? range : nullptr;
  }

  void end(void *range) override {
    if (range)
      finish(range);
  }

private:
  TorchProfiler() {
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
      return;
    start =
        reinterpret_cast<Start>(dlsym(library, "aoti_record_function_start"));
    finish =
        reinterpret_cast<Finish>(dlsym(library, "aoti_record_function_end"));
    PyObject *module = PyImport_ImportModule("torch.autograd.profiler");
    if (!module)
      PyErr_Clear();
    isEnabled = PyUnicode_InternFromString("_is_profiler_enabled");
    if (start && finish && module && isEnabled)
      variables = PyModule_GetDict(module);
  }

  using Start = int (*)(const char *name, void *keywords, const void *inputs,
                        uint64_t inputCount, void **range);
  using Finish = int (*)(void *range);
  Start start = nullptr;
  Finish finish = nullptr;
  PyObject *variables = nullptr; ///< null: this PyTorch has no such ranges
  PyObject *isEnabled = nullptr;
  bool listening = false; ///< guarded by the GIL
};

} // namespace

void anabranch::python::followTorchProfiler() { TorchProfiler::get().follow(); }
