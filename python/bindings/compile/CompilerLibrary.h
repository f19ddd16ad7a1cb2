//===- CompilerLibrary.h - the compiler, loaded when needed -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `compile` calls the compiler. Start here.
//
//   CompilerLibrary  opens the compiler's library when something is compiled
//   ObjectCache      finds kernels that were compiled before

#ifndef ANABRANCH_BINDINGS_COMPILERLIBRARY_H
#define ANABRANCH_BINDINGS_COMPILERLIBRARY_H

#include "anabranch/Compiler.h"

namespace anabranch::python {

/// The functions of anabranch/Compiler.h. A process that only runs packages
/// never loads LLVM.
struct CompilerLibrary {
  decltype(&anabranch_compile) compile;
  decltype(&anabranch_compile_result_message) message;
  decltype(&anabranch_compile_result_report) report;
  decltype(&anabranch_compile_result_free) free;
  decltype(&anabranch_operator_table) operatorTable;
  decltype(&anabranch_compiler_version) version;

  /// Throws std::runtime_error if the library cannot be loaded.
  static const CompilerLibrary &get();
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_COMPILERLIBRARY_H
