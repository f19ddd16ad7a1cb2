//===- Identity.cpp - which build of a compiler this is -------------------===//
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

namespace anabranch::cache {

namespace {

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
