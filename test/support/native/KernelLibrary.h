//===- KernelLibrary.h - kernels compiled and loaded at once ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Makes callable kernels of a module, in this process. For tests and
// measurements only: products go through a package and the runtime.

#ifndef ANABRANCH_SUPPORT_NATIVE_KERNELLIBRARY_H
#define ANABRANCH_SUPPORT_NATIVE_KERNELLIBRARY_H

#include "anabranch/KernelABI.h"
#include "native/Compile.h"
#include "support/native/ForeignProcess.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace anabranch {
namespace native {

/// Whether code of the target runs: on this processor, or in an emulator.
inline bool runs(const TargetInfo &target) {
  return target.runsHere() || ForeignProcess::emulates(target);
}

/// What a test whose parameters are crossed is called: a value of each. gtest
/// takes few signs. scripts/gtests.py finds the values between "__".
inline std::string testNameOf(std::initializer_list<std::string> values) {
  std::string name = llvm::join(values, "__");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class KernelLibrary {
public:
  /// Compiles, links and loads a module. An error carries all diagnostics.
  static llvm::Expected<KernelLibrary>
  load(mlir::ModuleOp module, const CompileOptions &options, EmitFn emit = {});
  /// Does the same with MLIR text, in a context of its own.
  static llvm::Expected<KernelLibrary>
  fromText(llvm::StringRef text, const TargetInfo &target, EmitFn emit = {});

  KernelLibrary(KernelLibrary &&other) noexcept;
  ~KernelLibrary();

  const std::vector<KernelObject> &objects() const { return compiled; }

  /// Whether the library has a function of this name.
  bool has(const std::string &function) const;

  anabranch_kernel_plan plan(const std::string &kernel,
                             llvm::ArrayRef<int64_t> sizes) const;

  /// The footprint of a tile, one region for each of `buffers` buffers.
  std::vector<anabranch_strided_region> footprint(const std::string &kernel,
                                                  llvm::ArrayRef<int64_t> sizes,
                                                  int64_t tile,
                                                  size_t buffers) const;

  /// Runs every tile of a kernel, one after the other, with the scratch memory
  /// that its plan asks for. A guard page follows that memory. Returns the
  /// first status that is not zero.
  int32_t run(const std::string &kernel, llvm::ArrayRef<void *> buffers,
              llvm::ArrayRef<int64_t> sizes) const;
  /// Runs the tiles from `first` up to but without `last`.
  int32_t run(const std::string &kernel, llvm::ArrayRef<void *> buffers,
              llvm::ArrayRef<int64_t> sizes, int64_t first, int64_t last) const;

private:
  KernelLibrary() = default;

  llvm::Error open(const TargetInfo &target, const std::string &path);
  /// Calls a function of the library, wherever it runs.
  template <typename Function, typename... Arguments>
  int32_t call(const std::string &name, Arguments... arguments) const;

  std::vector<KernelObject> compiled;
  void *handle = nullptr; ///< null if the code is not this machine's
  std::shared_ptr<ForeignProcess> foreign;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_NATIVE_KERNELLIBRARY_H
