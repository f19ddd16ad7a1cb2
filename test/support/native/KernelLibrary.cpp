//===- KernelLibrary.cpp - kernels compiled and loaded at once ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/KernelLibrary.h"

#include "mlir/IR/Diagnostics.h"
#include "native/object/Link.h"
#include "native/target/Architectures.h"
#include "support/native/GuardedMemory.h"
#include "support/native/ParsedKernel.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <type_traits>

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
  if (linked)
    return std::move(linked);
  if (Error error = library.open(options.target, path.str().str()))
    return std::move(error);
  return std::move(library);
}

Error KernelLibrary::open(const TargetInfo &target, const std::string &path) {
  if (&target.architecture() == hostArchitecture()) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return createStringError("dlopen: %s", ::dlerror());
  } else if (ForeignProcess::emulates(target)) {
    foreign = ForeignProcess::load(target, path);
    if (!foreign)
      return createStringError("the emulator does not load %s", path.c_str());
  }
  return Error::success();
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
    : compiled(std::move(other.compiled)), handle(other.handle),
      foreign(std::move(other.foreign)) {
  other.handle = nullptr;
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    ::dlclose(handle);
}

bool KernelLibrary::has(const std::string &function) const {
  return foreign ? foreign->has(function)
                 : handle && ::dlsym(handle, function.c_str());
}

template <typename Function, typename... Arguments>
int32_t KernelLibrary::call(const std::string &name,
                            Arguments... arguments) const {
  if (foreign)
    return foreign->call(name, arguments...);
  auto function = reinterpret_cast<Function>(::dlsym(handle, name.c_str()));
  if constexpr (std::is_void_v<decltype(function(arguments...))>)
    return function(arguments...), 0;
  else
    return function(arguments...);
}

anabranch_kernel_plan KernelLibrary::plan(const std::string &kernel,
                                          ArrayRef<int64_t> sizes) const {
  anabranch_kernel_plan plan = {1, 0};
  if (has(kernel + "_plan"))
    call<anabranch_kernel_plan_fn>(kernel + "_plan", sizes.data(), &plan);
  return plan;
}

std::vector<anabranch_strided_region>
KernelLibrary::footprint(const std::string &kernel, ArrayRef<int64_t> sizes,
                         int64_t tile, size_t buffers) const {
  std::vector<anabranch_strided_region> regions(buffers);
  call<anabranch_kernel_footprint_fn>(kernel + "_footprint", sizes.data(), tile,
                                      regions.data());
  return regions;
}

int32_t KernelLibrary::run(const std::string &kernel, ArrayRef<void *> buffers,
                           ArrayRef<int64_t> sizes) const {
  return run(kernel, buffers, sizes, 0, plan(kernel, sizes).tiles);
}

int32_t KernelLibrary::run(const std::string &kernel, ArrayRef<void *> buffers,
                           ArrayRef<int64_t> sizes, int64_t first,
                           int64_t last) const {
  anabranch_kernel_plan grid = plan(kernel, sizes);
  size_t bytes = alignTo(grid.scratch_bytes, ANABRANCH_BUFFER_ALIGNMENT);
  GuardedMemory scratch(bytes, GuardedMemory::Side::End);
  // As floats of any width, words of a small number are denormal.
  std::fill_n(reinterpret_cast<uint32_t *>(scratch.data()),
              bytes / sizeof(uint32_t), 1);
  if (has(kernel + "_setup") && first < last)
    if (int32_t status = call<anabranch_kernel_setup_fn>(
            kernel + "_setup", buffers.data(), sizes.data(), scratch.data()))
      return status;
  if (foreign && first < last)
    return foreign->callTiles(kernel, buffers.data(), sizes.data(),
                              scratch.data(), first, last);
  for (int64_t tile = first; tile < last; ++tile)
    if (int32_t status = call<anabranch_kernel_fn>(
            kernel, buffers.data(), sizes.data(), scratch.data(), tile))
      return status;
  return ANABRANCH_KERNEL_OK;
}

} // namespace native
} // namespace anabranch
