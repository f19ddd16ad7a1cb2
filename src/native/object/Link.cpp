//===- Link.cpp - object files to a shared object, in-process -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/object/Link.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <mutex>
#include <pthread.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace anabranch {
namespace native {
namespace {

/// lld keeps its state in globals.
std::mutex linkerMutex;
bool linkerUsable = true;

/// Temporary files beside the output, for lld, which reads only real files. The
/// destructor removes them.
class TemporaryFiles {
public:
  explicit TemporaryFiles(StringRef prefix) : prefix(prefix.str()) {}
  ~TemporaryFiles() {
    for (const std::string &path : paths)
      ::unlink(path.c_str());
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

  /// The path of a file that lld will write.
  Expected<std::string> reserve(StringRef name) {
    SmallString<128> path;
    int descriptor = -1;
    if (std::error_code error = sys::fs::createUniqueFile(
            prefix + "." + name + "-%%%%%%%%", descriptor, path,
            sys::fs::OF_None, sys::fs::owner_read | sys::fs::owner_write))
      return createStringError(error, "can't create a file beside %s",
                               prefix.c_str());
    ::close(descriptor);
    paths.push_back(path.str().str());
    return paths.back();
  }

private:
  std::string prefix;
  std::vector<std::string> paths;
};

/// Calls `function` in a thread of its own. lld keeps some of its memory until
/// the thread ends, so each link on the caller's thread would cost memory for
/// good.
void callApart(function_ref<void()> function) {
  auto main = [](void *argument) -> void * {
    (*static_cast<function_ref<void()> *>(argument))();
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, nullptr, main, &function) == 0)
    pthread_join(thread, nullptr);
  else
    function();
}

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
  lld::Result result;
  callApart([&] {
    result =
        lld::lldMain(argv, outStream, errStream, {{lld::Gnu, &lld::elf::link}});
  });
  linkerUsable = result.canRunAgain;
  if (result.retCode != 0)
    return createStringError("linking failed: %s", err.c_str());
  return Error::success();
}

/// The bytes of an empty library with libm's name. It makes lld record the
/// dependency, whether or not the machine has libm's development files. It is
/// made once for each architecture, from an empty linker script, since lld
/// needs an input.
Expected<StringRef> emptyLibm(const Architecture &architecture,
                              TemporaryFiles &files) {
  static std::mutex mutex;
  static std::map<const Architecture *, std::string> made;
  std::lock_guard<std::mutex> lock(mutex);
  std::string &bytes = made[&architecture];
  if (!bytes.empty())
    return bytes;
  StringRef script = "GROUP()";
  Expected<std::string> empty =
      files.write("empty", {script.data(), script.size()});
  if (!empty)
    return empty.takeError();
  Expected<std::string> library = files.reserve("libm");
  if (!library)
    return library.takeError();
  if (Error error = runLinker({"-m", architecture.emulation, "-soname",
                               "libm.so.6", "-o", *library, *empty}))
    return error;
  auto buffer = MemoryBuffer::getFile(*library);
  if (!buffer)
    return createStringError(buffer.getError(), "can't read %s",
                             library->c_str());
  bytes = (*buffer)->getBuffer().str();
  return bytes;
}

/// Asks the linker for names of the object's functions that begin with the
/// kernel's name.
Error addNames(const KernelObject &kernel,
               std::vector<std::string> &arguments) {
  MemoryBufferRef bytes({kernel.bytes.data(), kernel.bytes.size()},
                        kernel.name);
  auto file = object::ObjectFile::createObjectFile(bytes);
  if (!file)
    return file.takeError();
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & object::SymbolRef::SF_Global) ||
        (*flags & object::SymbolRef::SF_Undefined))
      continue;
    Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    StringRef suffix = *name;
    if (suffix.consume_front(kernel.symbol))
      arguments.push_back(
          ("--defsym=" + kernel.name + suffix + "=" + *name).str());
  }
  return Error::success();
}

} // namespace

Error linkKernels(ArrayRef<KernelObject> objects,
                  const Architecture &architecture, StringRef path) {
  TemporaryFiles files(path);
  Expected<StringRef> stub = emptyLibm(architecture, files);
  if (!stub)
    return stub.takeError();
  Expected<std::string> libm =
      files.write("libm", {stub->data(), stub->size()});
  if (!libm)
    return libm.takeError();

  std::vector<std::string> arguments = {"-m", architecture.emulation, "-o",
                                        path.str(), *libm};
  StringSet<> linked; // equal kernels share one object
  for (const KernelObject &object : objects) {
    if (!object.symbol.empty())
      if (Error error = addNames(object, arguments))
        return error;
    if (!object.symbol.empty() && !linked.insert(object.symbol).second)
      continue;
    Expected<std::string> file = files.write("o", object.bytes);
    if (!file)
      return file.takeError();
    arguments.push_back(*file);
  }
  return runLinker(arguments);
}

} // namespace native
} // namespace anabranch
