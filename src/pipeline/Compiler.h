//===- Compiler.h - graph description to package ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PIPELINE_COMPILER_H
#define ANABRANCH_PIPELINE_COMPILER_H

#include "package/Writer.h"
#include "pipeline/Options.h"
#include "pipeline/Report.h"

#include <functional>
#include <string>
#include <vector>

namespace anabranch {
namespace pipeline {

struct Request {
  llvm::StringRef graph; ///< graph description
  std::vector<package::Constant> constants;
  Options options;
  std::string output; ///< folder of the package
  /// Told the phase and how much of it is done; false cancels. Called on the
  /// thread that compiles.
  std::function<bool(llvm::StringRef phase, int64_t done, int64_t total)>
      progress;
};

enum class Outcome { Ok, UserError, InternalError, Cancelled };

struct Result {
  Outcome outcome = Outcome::Ok;
  std::string message; ///< every error, with the user's line
  std::string report;  ///< JSON
};

/// Runs all phases. Any thread; independent calls may run at once.
Result compile(const Request &request);

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_COMPILER_H
