//===- LoadedPackage.cpp - what the programs of a package share -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/LoadedPackage.h"

#include "fft/Fft.h"
#include "machine/host/MemoryRoom.h"
#include "package/verify/RuntimeOperator.h"
#include "runtime/device/Devices.h"

namespace anabranch::runtime {

/// The first few operators that the program calls, for the reason of a refusal.
static std::string calledOperators(const package::ProgramT &program) {
  std::string list;
  int count = 0;
  for (const auto *streams : {&program.initialize, &program.streams})
    for (const auto &stream : *streams)
      for (const auto &command : stream->commands)
        if (const package::CallT *call = command->action.AsCall();
            call && !package::isRuntimeOperator(call->op) &&
            list.find(call->op) == std::string::npos) {
          if (++count > 8)
            return list + ", ...";
          list += (list.empty() ? "" : ", ") + call->op;
        }
  return list;
}

Expected<std::shared_ptr<LoadedPackage>>
LoadedPackage::open(const std::string &path, const OpenOptions &options,
                    const std::shared_ptr<const LoadedPackage> &donor) {
  const Device *device = findDevice(options.device);
  if (!device)
    return Status(StatusCode::Unsupported, "there is no device '" +
                                               options.device +
                                               "', only: " + deviceNames());
  package::ReadOptions reading;
  reading.checkHashes = options.checkHashes;
  reading.checkCpu = device->computes();
  reading.target = options.target;
  reading.trust = options.trust;
  Expected<std::unique_ptr<package::Package>> read =
      package::readPackage(path, reading);
  if (!read)
    return read.takeStatus();
  auto loaded = std::make_shared<LoadedPackage>();
  loaded->package = std::move(*read);
  if (donor && donor->device == device) {
    loaded->donor = donor;
    loaded->arenas = donor->arenas;
  } else {
    loaded->arenas = std::make_shared<ArenaPool>();
  }
  loaded->device = device;
  loaded->host = options.hostCalls;
  if (!loaded->host) {
    loaded->ownHost = std::make_unique<OwnHost>(*device);
    loaded->host = loaded->ownHost.get();
  }
  loaded->threads = options.threads;
  if (Status s = loaded->loadKernels(); !s.ok())
    return s;
  if (Status s = loaded->reservePersistent(); !s.ok())
    return s;
  return loaded;
}

Status LoadedPackage::loadKernels() {
  // The null device runs no kernels, but it needs the function that computes
  // sizes.
  bool wanted = device->computes();
  for (const package::ProgramT *program : package->programs()) {
    if (program->needs_libtorch && ownHost)
      return Status(StatusCode::Unsupported, "the package needs PyTorch for: " +
                                                 calledOperators(*program));
    wanted |= !program->sizes_function.empty();
  }
  if (!wanted || package->kernelsPath.empty())
    return {};
  Expected<std::unique_ptr<Library>> loaded =
      Library::load(package->kernelsPath);
  if (!loaded)
    return loaded.takeStatus();
  library = std::move(*loaded);
  if (void *variable = library->symbol("anabranch_fft"))
    *static_cast<anabranch_fft_fn *>(variable) = fft::transform;
  return {};
}

Status LoadedPackage::reservePersistent() {
  const Size *bytes = package->program.persistent_bytes.get();
  persistentBytes = bytes ? static_cast<size_t>(bytes->value()) : 0;
  const package::Mapping &prepared = package->prepared;
  if (prepared.size())
    // Only `initialize` writes to this memory (ProgramVerifier), and it does
    // not run.
    persistent = const_cast<char *>(prepared.data());
  else if (persistentBytes) {
    if (Status s =
            machine::checkMemoryRoom(static_cast<int64_t>(persistentBytes),
                                     "the weights of " + package->path);
        !s.ok())
      return s;
    persistent = device->allocate(persistentBytes);
  }
  if (persistentBytes && !persistent)
    return Status::outOfMemory();
  persistentInUse = persistentBytes;
  return {};
}

LoadedPackage::~LoadedPackage() {
  if (persistent && !package->prepared.size())
    device->release(persistent, persistentBytes);
}

} // namespace anabranch::runtime
