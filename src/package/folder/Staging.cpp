//===- Staging.cpp - a package that is being written ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/Staging.h"

#include "package/files/Safetensors.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anabranch::package {

static bool isPackage(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         ::access((path + "/manifest.json").c_str(), F_OK) == 0;
}

Staging::Staging(const std::string &target) {
  static std::atomic<unsigned> counter{0};
  path = target + ".tmp-" + std::to_string(::getpid()) + "-" +
         std::to_string(counter++);
}

Staging::~Staging() {
  if (made)
    removeFolder(path);
}

Status Staging::make() {
  if (::mkdir(path.c_str(), 0700) != 0)
    return ioError("cannot create " + path);
  made = true;
  folder = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.valid() ? Status() : ioError("cannot open " + path);
}

Expected<Descriptor> Staging::makeFolder(const std::string &name) {
  for (size_t slash = name.find('/');; slash = name.find('/', slash + 1)) {
    std::string part = name.substr(0, slash);
    if (::mkdirat(folder.get(), part.c_str(), 0700) != 0 && errno != EEXIST)
      return ioError("cannot create " + path + "/" + part);
    if (slash == std::string::npos)
      break;
  }
  Descriptor made(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!made.valid())
    return ioError("cannot open " + path + "/" + name);
  return made;
}

Status Staging::publish(const std::string &target, Existing existing) {
  // A plain rename would replace an empty folder. RENAME_NOREPLACE refuses that
  // too.
  unsigned flags = existing == Existing::Refuse ? RENAME_NOREPLACE : 0;
  if (::syscall(SYS_renameat2, AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(),
                flags) == 0) {
    made = false;
    return {};
  }
  if (errno != ENOTEMPTY && errno != EEXIST)
    return ioError("cannot publish the package as " + target);
  if (existing == Existing::Refuse)
    return Status(StatusCode::IoError, target + " exists; it is left alone");
  if (!isPackage(target))
    return Status(StatusCode::IoError,
                  target + " exists and is not a package; it is left alone");
  // The exchange is one step: a reader sees the old package or the new one. The
  // destructor then removes the old one.
  if (::syscall(SYS_renameat2, AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(),
                RENAME_EXCHANGE) != 0)
    return ioError("cannot replace the package " + target);
  return {};
}

Status guarded(const std::string &path,
               const std::function<Status(const std::string &)> &write) {
  std::string target = path;
  while (target.size() > 1 && target.back() == '/')
    target.pop_back();
  try {
    return write(target);
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal,
                  std::string("cannot write the package: ") + e.what());
  }
}

Status writeText(const Descriptor &folder, const std::string &name,
                 const std::string &text, bool hash, ManifestFile &row) {
  FileWriter file(folder, name, hash);
  file.write(text.data(), text.size());
  return file.finish(row.bytes, row.hash);
}

namespace {

/// Writes elements in row-major order, through a buffer: weights may be larger
/// than the memory that is left.
class Gatherer {
public:
  Gatherer(FileWriter &file, size_t item) : file(file), item(item) {}

  void add(const Constant &constant, size_t dim, const char *data) {
    if (dim == constant.shape.size())
      return put(data);
    int64_t step = constant.strides[dim] * static_cast<int64_t>(item);
    for (int64_t i = 0; i < constant.shape[dim]; ++i)
      add(constant, dim + 1, data + i * step);
  }
  void flush() {
    file.write(buffer.data(), used);
    used = 0;
  }

private:
  void put(const char *element) {
    if (used + item > buffer.size())
      flush();
    std::memcpy(&buffer[used], element, item);
    used += item;
  }

  FileWriter &file;
  size_t item, used = 0;
  std::vector<char> buffer = std::vector<char>(size_t(1) << 20);
};

void writeElements(FileWriter &file, const Constant &constant, uint64_t bytes) {
  if (constant.strides.empty() || bytes == 0)
    return file.write(constant.data, bytes);
  Gatherer gatherer(file, itemSize(constant.dtype));
  gatherer.add(constant, 0, static_cast<const char *>(constant.data));
  gatherer.flush();
}

} // namespace

Status writeConstants(const Descriptor &folder,
                      const std::vector<Constant> &constants, bool hash,
                      ManifestFile &row) {
  std::vector<uint64_t> offsets;
  Expected<std::string> header = safetensorsHeader(constants, offsets);
  if (!header)
    return header.takeStatus();
  FileWriter file(folder, "constants.safetensors", hash);
  file.write(header->data(), header->size());
  uint64_t at = header->size();
  static const char zeros[64] = {};
  for (size_t i = 0; i < constants.size(); ++i) {
    file.write(zeros, offsets[i] - at);
    uint64_t bytes = itemSize(constants[i].dtype);
    for (int64_t size : constants[i].shape)
      bytes *= static_cast<uint64_t>(size);
    writeElements(file, constants[i], bytes);
    at = offsets[i] + bytes;
  }
  return file.finish(row.bytes, row.hash);
}

} // namespace anabranch::package
