//===- Module.cpp - the extension module anabranch._C ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "Bind.h"
#include "NewTensor.h"
#include "Torch.h"
#include "TorchProfiler.h"

NB_MODULE(_C, module) {
  // Dynamo's caches keep executables until the process ends: no leak of ours.
  nanobind::set_leak_warnings(false);
  // Here, where no other thread can wait for these with the GIL in its hands.
  anabranch::python::Torch::get();
  anabranch::python::NewTensor::get();
  anabranch::python::followTorchProfiler();
  anabranch::python::bindCompiler(module);
  anabranch::python::bindExecutable(module);
  anabranch::python::bindCache(module);
}
