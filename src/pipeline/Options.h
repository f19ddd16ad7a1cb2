//===- Options.h - what a compilation may be asked for ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_OPTIONS_H
#define ANABRANCH_PIPELINE_OPTIONS_H

#include "import/graph/BindSymbols.h"
#include "kernels/Tuning.h"
#include "pipeline/Phases.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace anabranch {
namespace pipeline {

/// The options of include/anabranch/Compiler.h. parseOptions makes the value;
/// then it is read only.
struct Options {
  unsigned threads = 0; ///< that compile kernels; 0: one per CPU
  std::string dump;     ///< folder for the IR after each phase; empty: none
  std::string stop;     ///< the last phase to run; empty: all
  bool explain = false; ///< put refusals and their reasons into the report
  bool debug = false;   ///< verify after every pass, keep kernels' code
  std::string cpu = "host";
  StreamOptions streams;
  std::string config = "{}";     ///< JSON text, kept in the manifest
  std::vector<Binding> bindings; ///< a program for each
  bool pad = false;              ///< run other sizes in programs of larger ones
  bool symbolic = false;         ///< also a program without a binding
  ProductOptions products;
  kernels::Blockings blockings; ///< of kernels whose blockings were timed
  size_t listBlockings = 0;     ///< how many to report of each kernel
};

/// Reads the JSON object of the C API; empty text means defaults. An option
/// that it leaves out is read from ANABRANCH_DUMP, ANABRANCH_STOP or
/// ANABRANCH_EXPLAIN. In the compiler library, only this function reads these
/// variables.
llvm::Expected<Options> parseOptions(llvm::StringRef json);

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_OPTIONS_H
