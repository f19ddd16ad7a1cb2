//===- Link.cpp - object files to a shared object, in-process -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/Codegen.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace anabranch {
namespace codegen {
namespace {

/// lld keeps its state in globals.
std::mutex linkerMutex;
bool linkerUsable = true;

/// Files for lld, which only reads real ones, beside the output; gone at the
/// end in every case.
class TemporaryFiles {
public:
  explicit TemporaryFiles(StringRef prefix) : prefix(prefix.str()) {}
  ~TemporaryFiles() {
    for (const std::string &path : paths)
      sys::fs::remove(path);
  }

  /// A new file with these bytes.
  Expected<std::string> write(StringRef name, ArrayRef<char> bytes) {
    Expected<std::string> path = reserve(name);
    if (!path)
      return path;
    std::error_code error;
    raw_fd_ostream stream(*path, error);
    if (!error)
      stream.write(bytes.data(), bytes.size());
    stream.close();
    if (!error && stream.has_error())
      error = stream.error();
    stream.clear_error();
    if (error)
      return createStringError(error, "can't write %s", path->c_str());
    return path;
  }

  /// The path of a file that somebody else will write.
  Expected<std::string> reserve(StringRef name) {
    SmallString<128> path;
    int descriptor = -1;
    if (std::error_code error = sys::fs::createUniqueFile(
            prefix + "." + name + "-%%%%%%%%", descriptor, path,
            sys::fs::OF_None, sys::fs::owner_read | sys::fs::owner_write))
      return createStringError(error, "can't create a file beside %s",
                               prefix.c_str());
    raw_fd_ostream(descriptor, /*shouldClose=*/true);
    paths.push_back(path.str().str());
    return paths.back();
  }

private:
  std::string prefix;
  std::vector<std::string> paths;
};

/// Runs lld with these arguments.
Error runLinker(ArrayRef<std::string> arguments) {
  std::vector<const char *> argv = {
      "ld.lld", "-shared", "--threads=1", "--build-id=none", "-z",
      "relro",  "-z",      "now",         "--hash-style=gnu"};
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  std::string out, err;
  raw_string_ostream outStream(out), errStream(err);
  std::lock_guard<std::mutex> lock(linkerMutex);
  if (!linkerUsable)
    return createStringError("the linker failed badly before and can't be "
                             "used again in this process");
  lld::Result result =
      lld::lldMain(argv, outStream, errStream, {{lld::Gnu, &lld::elf::link}});
  linkerUsable = result.canRunAgain;
  if (result.retCode != 0)
    return createStringError("linking failed: %s", err.c_str());
  return Error::success();
}

} // namespace

Error linkKernels(ArrayRef<KernelObject> objects, StringRef path) {
  TemporaryFiles files(path);
  // An empty library that carries libm's name makes lld note the dependency,
  // whether or not the machine has libm's development files. It is made of an
  // empty linker script, since lld wants an input.
  StringRef script = "GROUP()";
  Expected<std::string> empty =
      files.write("empty", {script.data(), script.size()});
  if (!empty)
    return empty.takeError();
  Expected<std::string> libm = files.reserve("libm");
  if (!libm)
    return libm.takeError();
  if (Error error = runLinker(
          {"-m", "elf_x86_64", "-soname", "libm.so.6", "-o", *libm, *empty}))
    return error;

  std::vector<std::string> arguments = {"-m", "elf_x86_64", "-o", path.str(),
                                        *libm};
  for (const KernelObject &object : objects) {
    Expected<std::string> file = files.write("o", object.bytes);
    if (!file)
      return file.takeError();
    arguments.push_back(*file);
  }
  return runLinker(arguments);
}

} // namespace codegen
} // namespace anabranch
