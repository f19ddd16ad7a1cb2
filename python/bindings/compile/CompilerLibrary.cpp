//===- CompilerLibrary.cpp - the compiler, loaded when needed -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "compile/CompilerLibrary.h"

#include <dlfcn.h>
#include <stdexcept>
#include <string>

using namespace anabranch::python;

namespace {

template <typename Function>
void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw std::runtime_error(std::string("the compiler library lacks ") + name);
}

CompilerLibrary load() {
  // Found as the runtime library is: by this module's run path.
  void *library = dlopen("libanabranch_compiler.so", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(std::string("cannot load the compiler library: ") +
                             dlerror());
  CompilerLibrary found;
  find(library, "anabranch_compile", found.compile);
  find(library, "anabranch_compile_result_message", found.message);
  find(library, "anabranch_compile_result_report", found.report);
  find(library, "anabranch_compile_result_free", found.free);
  find(library, "anabranch_operator_table", found.operatorTable);
  find(library, "anabranch_compiler_version", found.version);
  return found;
}

} // namespace

const CompilerLibrary &CompilerLibrary::get() {
  static const CompilerLibrary library = load();
  return library;
}
