//===- GuardedMemory.h - bytes between pages that fault ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Memory that shows accesses before its first or after its last byte. On one
// side lies a page that may not be accessed at all. The gap on the other side
// is filled with a pattern that a test can compare. For tests only.

#ifndef ANABRANCH_SUPPORT_NATIVE_GUARDEDMEMORY_H
#define ANABRANCH_SUPPORT_NATIVE_GUARDEDMEMORY_H

#include <cassert>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace anabranch {
namespace native {

class GuardedMemory {
public:
  enum class Side { Begin, End };

  /// `bytes` bytes that begin right after a guard page, or end right before
  /// one.
  GuardedMemory(size_t bytes, Side side) : bytes(bytes) {
    page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner = (bytes + page - 1) / page * page;
    void *mapped = mmap(nullptr, inner + 2 * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(mapped != MAP_FAILED);
    base = static_cast<char *>(mapped);
    mprotect(base, page, PROT_NONE);
    mprotect(base + page + inner, page, PROT_NONE);
    std::memset(base + page, pattern, inner);
    first = base + page + (side == Side::End ? inner - bytes : 0);
  }
  ~GuardedMemory() { munmap(base, inner + 2 * page); }
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  char *data() const { return first; }
  size_t size() const { return bytes; }

  /// Whether the accessible bytes around the memory are unchanged.
  bool surroundingsAreIntact() const {
    for (char *at = base + page; at != base + page + inner; ++at)
      if ((at < first || at >= first + bytes) && *at != pattern)
        return false;
    return true;
  }

private:
  static constexpr char pattern = 0x5A;
  size_t bytes, page, inner;
  char *base, *first;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_NATIVE_GUARDEDMEMORY_H
