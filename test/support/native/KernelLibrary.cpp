//===- KernelLibrary.cpp - kernels compiled and loaded at once ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/KernelLibrary.h"

#include "mlir/IR/Diagnostics.h"
#include "native/object/Link.h"
#include "support/native/GuardedMemory.h"
#include "support/native/ParsedKernel.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

using namespace llvm;

namespace anabranch {
namespace native {

Expected<KernelLibrary> KernelLibrary::load(mlir::ModuleOp module,
                                            const CompileOptions &options,
                                            EmitFn emit) {
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(module.getContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          messages += diagnostic.str() + "\n";
                                        });
  auto objects = compile(module, options, emit);
  if (mlir::failed(objects))
    return createStringError("%s", messages.c_str());

  SmallString<128> path;
  if (std::error_code error =
          sys::fs::createTemporaryFile("anabranch-kernels", "so", path))
    return createStringError(error, "no temporary file");
  FileRemover remover(path);
  KernelLibrary library;
  library.compiled = std::move(*objects);
  Error linked =
      linkKernels(library.compiled, options.target.architecture(), path);
  if (!linked)
    library.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (linked)
    return std::move(linked);
  if (!library.handle)
    return createStringError("dlopen: %s", ::dlerror());
  return std::move(library);
}

Expected<KernelLibrary>
KernelLibrary::fromText(StringRef text, const TargetInfo &target, EmitFn emit) {
  ParsedKernel parsed(text);
  if (!parsed)
    return createStringError("the text does not parse");
  CompileOptions options;
  options.target = target;
  if (const char *directory = std::getenv("ANABRANCH_DUMP"))
    options.dumpDirectory = directory;
  return load(parsed.module(), options, emit);
}

KernelLibrary::KernelLibrary(KernelLibrary &&other) noexcept
    : compiled(std::move(other.compiled)), handle(other.handle) {
  other.handle = nullptr;
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    ::dlclose(handle);
}

void *KernelLibrary::symbol(const std::string &name) const {
  return ::dlsym(handle, name.c_str());
}

anabranch_kernel_plan KernelLibrary::plan(const std::string &kernel,
                                          ArrayRef<int64_t> sizes) const {
  anabranch_kernel_plan plan = {1, 0};
  if (auto function =
          reinterpret_cast<anabranch_kernel_plan_fn>(symbol(kernel + "_plan")))
    function(sizes.data(), &plan);
  return plan;
}

std::vector<anabranch_strided_region>
KernelLibrary::footprint(const std::string &kernel, ArrayRef<int64_t> sizes,
                         int64_t tile, size_t buffers) const {
  std::vector<anabranch_strided_region> regions(buffers);
  auto function = reinterpret_cast<anabranch_kernel_footprint_fn>(
      symbol(kernel + "_footprint"));
  function(sizes.data(), tile, regions.data());
  return regions;
}

int32_t KernelLibrary::run(const std::string &kernel, ArrayRef<void *> buffers,
                           ArrayRef<int64_t> sizes) const {
  return run(kernel, buffers, sizes, 0, plan(kernel, sizes).tiles);
}

int32_t KernelLibrary::run(const std::string &kernel, ArrayRef<void *> buffers,
                           ArrayRef<int64_t> sizes, int64_t first,
                           int64_t last) const {
  auto function = reinterpret_cast<anabranch_kernel_fn>(symbol(kernel));
  anabranch_kernel_plan grid = plan(kernel, sizes);
  size_t bytes = alignTo(grid.scratch_bytes, ANABRANCH_BUFFER_ALIGNMENT);
  GuardedMemory scratch(bytes, GuardedMemory::Side::End);
  // As floats of any width, words of a small number are denormal.
  std::fill_n(reinterpret_cast<uint32_t *>(scratch.data()),
              bytes / sizeof(uint32_t), 1);
  auto setup =
      reinterpret_cast<anabranch_kernel_setup_fn>(symbol(kernel + "_setup"));
  if (setup && first < last)
    if (int32_t status = setup(buffers.data(), sizes.data(), scratch.data()))
      return status;
  for (int64_t tile = first; tile < last; ++tile)
    if (int32_t status =
            function(buffers.data(), sizes.data(), scratch.data(), tile))
      return status;
  return ANABRANCH_KERNEL_OK;
}

} // namespace native
} // namespace anabranch
