//===- Bind.h - the parts of the extension module ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_BIND_H
#define ANABRANCH_BINDINGS_BIND_H

#include <nanobind/nanobind.h>

namespace anabranch::python {

void bindCompiler(nanobind::module_ &module);
void bindExecutable(nanobind::module_ &module);
void bindCache(nanobind::module_ &module);
void bindCombine(nanobind::module_ &module);
void bindReplay(nanobind::module_ &module);
void bindFrozen(nanobind::module_ &module);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_BIND_H
