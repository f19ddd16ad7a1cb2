//===- ReleaseCode.cpp - the compiler's code leaves memory ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "pipeline/ReleaseCode.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/ManagedStatic.h"

#include <cstdint>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace anabranch {
namespace pipeline {

static bool contains(const dl_phdr_info &object, const ElfW(Phdr) & segment,
                     uintptr_t address) {
  uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
  return segment.p_type == PT_LOAD && begin <= address &&
         address < begin + segment.p_memsz;
}

/// Whether the object is one of the libraries of the compiler: three in a
/// development build, one in the wheel.
static bool isCompiler(const dl_phdr_info &object) {
  uintptr_t markers[] = {
      reinterpret_cast<uintptr_t>(&releaseCode),
      reinterpret_cast<uintptr_t>(&mlir::registerAsmPrinterCLOptions),
      reinterpret_cast<uintptr_t>(&llvm::llvm_shutdown)};
  for (int i = 0; i < object.dlpi_phnum; ++i)
    for (uintptr_t marker : markers)
      if (contains(object, object.dlpi_phdr[i], marker))
        return true;
  return false;
}

/// Releases only segments that were never writable. Relocated data lies in
/// writable segments, even where the loader protects it later, and cannot be
/// read from the file again.
static int release(dl_phdr_info *object, size_t, void *) {
  if (!isCompiler(*object))
    return 0;
  const uintptr_t page = sysconf(_SC_PAGESIZE);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W))
      continue;
    uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    // A neighbour may share the last page, so only whole pages are released.
    uintptr_t first = (begin + page - 1) / page * page;
    uintptr_t last = (begin + segment.p_filesz) / page * page;
    // madvise is a hint. If the system refuses, the pages stay.
    if (first < last)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives integers.
      (void)madvise(reinterpret_cast<void *>(first), last - first,
                    MADV_DONTNEED);
  }
  return 0;
}

void releaseCode() { dl_iterate_phdr(release, nullptr); }

void CodeOfPhases::release() {
  constexpr std::chrono::milliseconds shortPhases(20);
  Clock::time_point now = Clock::now();
  if (now - released < shortPhases)
    return;
  releaseCode();
  released = now;
}

} // namespace pipeline
} // namespace anabranch
