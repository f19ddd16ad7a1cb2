//===- Identity.cpp - what machine code depends on ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Identity.h"

#include "package/files/Files.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anabranch::cache {

namespace {

void append(std::string &line, unsigned long long number) {
  char text[24];
  (void)std::snprintf(text, sizeof text, "%llx ", number);
  line += text;
}

#if defined(__x86_64__)
/// A CPUID leaf, and which of its registers are the same on every core.
struct Leaf {
  unsigned leaf, subleaf;
  bool eax, ebx, ecx, edx;
};

constexpr Leaf leaves[] = {
    {0, 0, false, true, true, true},  // vendor
    {1, 0, true, false, true, true},  // model; EBX holds the number of the core
    {7, 0, false, true, true, true},  // features
    {7, 1, true, false, false, true}, // more features
    {0x80000001, 0, false, false, true, true},
    {0x80000002, 0, true, true, true, true}, // name
    {0x80000003, 0, true, true, true, true},
    {0x80000004, 0, true, true, true, true},
};

void appendCpu(std::string &line) {
  for (const Leaf &leaf : leaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf.leaf, leaf.subleaf, &a, &b, &c, &d))
      continue;
    for (auto [wanted, value] :
         {std::pair{leaf.eax, a}, {leaf.ebx, b}, {leaf.ecx, c}, {leaf.edx, d}})
      if (wanted)
        append(line, value);
  }
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && c & (1u << 27)) {
    unsigned low, high; // of the registers that the system saves
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    append(line, uint64_t(high) << 32 | low);
  }
}
#else
void appendCpu(std::string &line) { line += "unknown "; }
#endif

bool readAt(int fd, uint64_t at, void *into, size_t size) {
  return ::pread(fd, into, size, off_t(at)) == ssize_t(size);
}

/// The build id among an ELF file's notes; empty if there is none.
std::string findBuildId(const std::vector<char> &notes) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, &notes[at], sizeof note);
    uint64_t name = at + sizeof note;
    uint64_t bytes = name + (uint64_t(note.n_namesz) + 3) / 4 * 4;
    uint64_t end = bytes + (uint64_t(note.n_descsz) + 3) / 4 * 4;
    if (end > notes.size())
      break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(&notes[name], "GNU", 4) == 0) {
      std::string hex;
      for (uint64_t i = 0; i < note.n_descsz; ++i) {
        char digits[3];
        (void)std::snprintf(digits, sizeof digits, "%02x",
                            static_cast<unsigned char>(notes[bytes + i]));
        hex += digits;
      }
      return hex;
    }
    at = end;
  }
  return "";
}

std::string buildIdOf(int fd) {
  Elf64_Ehdr header;
  if (!readAt(fd, 0, &header, sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!readAt(fd, header.e_phoff + i * sizeof segment, &segment,
                sizeof segment))
      return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > 1 << 20)
      continue;
    std::vector<char> notes(segment.p_filesz);
    if (!readAt(fd, segment.p_offset, notes.data(), notes.size()))
      return "";
    if (std::string id = findBuildId(notes); !id.empty())
      return id;
  }
  return "";
}

} // namespace

std::string cpuIdentity() {
  std::string line;
  appendCpu(line);
  for (int name :
       {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    append(line, static_cast<unsigned long long>(::sysconf(name)));
  line.pop_back();
  return line;
}

std::string buildIdentity(const std::string &path) {
  package::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return "";
  if (std::string id = buildIdOf(file.get()); !id.empty())
    return id;
  return std::to_string(info.st_size) + "-" +
         std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

} // namespace anabranch::cache
