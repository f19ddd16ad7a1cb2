//===- Module.cpp - the extension module anabranch._C ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "Bind.h"

NB_MODULE(_C, module) {
  anabranch::python::bindCompiler(module);
  anabranch::python::bindExecutable(module);
}
