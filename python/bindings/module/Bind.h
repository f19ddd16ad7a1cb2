//===- Bind.h - the parts of the extension module ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `module` binds functions and types. Start with Module.cpp.
//
//   Module          the extension module `_C`
//   Bind            the functions that each of the other files defines
//   BindExecutable  executables and their calls
//   BindCompiler    compilation
//   BindCache       entries of the cache
//   BindCombine     packages with several programs or processors
//   BindFrozen      frozen weights
//   BindGuards      guards that passed
//   BindPaged       attention over the pages of a server
//   BindReplay      replayed methods

#ifndef ANABRANCH_BINDINGS_BIND_H
#define ANABRANCH_BINDINGS_BIND_H

#include "anabranch/Status.h"

#include <nanobind/nanobind.h>

namespace anabranch::python {

void bindCompiler(nanobind::module_ &module);
void bindExecutable(nanobind::module_ &module);
void bindCache(nanobind::module_ &module);
void bindCombine(nanobind::module_ &module);
void bindReplay(nanobind::module_ &module);
void bindFrozen(nanobind::module_ &module);
void bindGuards(nanobind::module_ &module);
void bindPaged(nanobind::module_ &module);

/// Throws the Python error of a failed status (Errors.h). Needs the GIL.
void check(const Status &status);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_BIND_H
