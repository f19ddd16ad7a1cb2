//===- Options.h - what a compilation may be asked for ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PIPELINE_OPTIONS_H
#define ANABRANCH_PIPELINE_OPTIONS_H

#include "codegen/Tuning.h"
#include "import/graph/BindSymbols.h"
#include "pipeline/Phases.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace anabranch {
namespace pipeline {

/// The options of include/anabranch/Compiler.h. A value: made once, then read.
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
  bool pad = false;              ///< other sizes run in programs of larger ones
  bool symbolic = false;         ///< a program without a binding before those
  codegen::PanelsFor panels = codegen::PanelsFor::Rows; ///< of constants
  codegen::Blockings blockings; ///< of kernels that were timed
  size_t listBlockings = 0;     ///< at most so many of each kernel, reported
};

/// Reads the JSON object of the C API; empty text means defaults. For options
/// that it does not set, ANABRANCH_DUMP, ANABRANCH_STOP and ANABRANCH_EXPLAIN
/// count: the only place that reads them.
llvm::Expected<Options> parseOptions(llvm::StringRef json);

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_OPTIONS_H
