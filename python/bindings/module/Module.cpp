//===- Module.cpp - the extension module anabranch._C ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/TorchProfiler.h"
#include "calls/TorchTeam.h"
#include "calls/TorchThreads.h"
#include "module/Bind.h"
#include "support/Errors.h"
#include "tensors/NewTensor.h"
#include "tensors/TensorState.h"
#include "tensors/Torch.h"

namespace {

/// Where no other thread can wait for these with the GIL in its hands: while
/// something is imported.
void useTorch() {
  anabranch::python::Torch::get();
  anabranch::python::NewTensor::get();
  anabranch::python::TensorStates::get();
  anabranch::python::followTorchProfiler();
  anabranch::python::followTorchThreads();
  anabranch::python::lendTorchTeam();
}

} // namespace

void anabranch::python::check(const Status &status) {
  if (status.ok())
    return;
  setError(status);
  throw nanobind::python_error();
}

NB_MODULE(_C, module) {
  // Dynamo's caches keep executables until the process ends: no leak of ours.
  nanobind::set_leak_warnings(false);
  module.def("use_torch", &useTorch);
  // A package needs no PyTorch, all else has imported it before.
  nanobind::object loaded = nanobind::module_::import_("sys").attr("modules");
  if (nanobind::cast<bool>(loaded.attr("__contains__")("torch")))
    useTorch();
  anabranch::python::bindCompiler(module);
  anabranch::python::bindExecutable(module);
  anabranch::python::bindCache(module);
  anabranch::python::bindCombine(module);
  anabranch::python::bindFrozen(module);
  anabranch::python::bindGuards(module);
  anabranch::python::bindPaged(module);
  anabranch::python::bindReplay(module);
}
