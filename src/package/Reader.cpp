//===- Reader.cpp - read and check a package folder -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "package/Reader.h"

#include "anabranch/KernelABI.h"
#include "package/CpuFeatures.h"
#include "package/Files.h"
#include "package/VerifyProgram.h"

namespace anabranch::package {

namespace {

constexpr uint64_t manifestLimit = 64u << 20;
constexpr uint64_t programLimit = 1u << 30;

Status refuse(const std::string &why) {
  return Status(StatusCode::BadPackage, why);
}

Status checkVersionAndCpu(const Manifest &m, const ReadOptions &options) {
  if (m.abi != ANABRANCH_KERNEL_ABI_VERSION)
    return Status(StatusCode::Unsupported,
                  "the package was made for kernel ABI " +
                      std::to_string(m.abi) + ", this runtime has " +
                      std::to_string(ANABRANCH_KERNEL_ABI_VERSION) +
                      "; compile the model again with this version");
  if (!options.checkCpu || m.cpu.empty())
    return {};
  if (m.cpu != hostCpu())
    return Status(StatusCode::Unsupported, "the package was made for " + m.cpu +
                                               ", this machine is " +
                                               hostCpu());
  std::string list;
  for (const std::string &feature : missingFeatures(m.features))
    list += (list.empty() ? "" : ", ") + feature;
  if (list.empty())
    return {};
  return Status(StatusCode::Unsupported,
                "this CPU lacks what the package's kernels need: " + list +
                    "; compile the model for this machine");
}

/// Opens a file of the package and compares it with its line in the manifest.
Expected<Descriptor> openChecked(const Descriptor &folder, const Manifest &m,
                                 const std::string &name,
                                 const ReadOptions &options) {
  auto row = m.files.find(name);
  if (row == m.files.end())
    return refuse("manifest.json does not list " + name);
  Expected<Descriptor> file = openFile(folder, name);
  if (!file)
    return file;
  Expected<uint64_t> bytes = sizeOf(*file);
  if (!bytes)
    return bytes.takeStatus();
  if (*bytes != row->second.bytes)
    return refuse(name + " has " + std::to_string(*bytes) +
                  " bytes where the manifest says " +
                  std::to_string(row->second.bytes) +
                  ": it was truncated or changed");
  if (!options.checkHashes)
    return file;
  if (row->second.sha256.empty())
    return refuse("the manifest has no hash for " + name);
  Expected<std::string> hash = hashAll(*file);
  if (!hash)
    return hash.takeStatus();
  if (*hash != row->second.sha256)
    return refuse(name +
                  " differs from its hash in the manifest: it was changed");
  return file;
}

bool sameShape(const std::vector<Size> &expected,
               const std::vector<int64_t> &actual) {
  if (expected.size() != actual.size())
    return false;
  for (size_t i = 0; i < actual.size(); ++i)
    if (expected[i].slot() >= 0 || expected[i].value() != actual[i])
      return false;
  return true;
}

uint64_t elementCount(const std::vector<int64_t> &shape) {
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= static_cast<uint64_t>(size);
  return count;
}

/// Constants that the program names must be there with the type that it
/// expects. A buffer may see one under another shape: a reshape is no kernel.
Status checkConstants(const ProgramT &program, const Safetensors &constants) {
  for (const auto &buffer : program.buffers) {
    if (buffer->kind != BufferKind::Constant)
      continue;
    const StoredTensor *tensor = constants.find(buffer->name);
    if (!tensor)
      return refuse("constant '" + buffer->name + "' is missing");
    auto dtype = static_cast<anabranch::DType>(buffer->dtype);
    std::vector<int64_t> shape;
    for (const Size &size : buffer->shape)
      shape.push_back(size.value());
    if (tensor->dtype != dtype ||
        (!sameShape(buffer->shape, tensor->shape) &&
         elementCount(shape) != elementCount(tensor->shape)))
      return refuse("constant '" + buffer->name +
                    "' is not what the program expects");
  }
  return {};
}

Expected<std::unique_ptr<Package>> read(const std::string &path,
                                        const ReadOptions &options) {
  auto package = std::make_unique<Package>();
  package->path = path;
  Expected<Descriptor> folder = openFolder(path);
  if (!folder)
    return folder.takeStatus();
  Expected<Descriptor> manifestFile = openFile(*folder, "manifest.json");
  if (!manifestFile)
    return manifestFile.takeStatus();
  Expected<std::string> text = readAll(*manifestFile, manifestLimit);
  if (!text)
    return text.takeStatus();
  Expected<Manifest> manifest = parseManifest(*text);
  if (!manifest)
    return manifest.takeStatus();
  package->manifest = std::move(*manifest);
  if (Status s = checkVersionAndCpu(package->manifest, options); !s.ok())
    return s;

  auto open = [&](const char *name) {
    return openChecked(*folder, package->manifest, name, options);
  };
  Expected<Descriptor> programFile = open("program.bin");
  if (!programFile)
    return programFile.takeStatus();
  Expected<std::string> bytes = readAll(*programFile, programLimit);
  if (!bytes)
    return bytes.takeStatus();
  Expected<ProgramT> program = parseProgram(bytes->data(), bytes->size());
  if (!program)
    return program.takeStatus();
  package->program = std::move(*program);

  Expected<Descriptor> constantsFile = open("constants.safetensors");
  if (!constantsFile)
    return constantsFile.takeStatus();
  Expected<Safetensors> constants = Safetensors::map(constantsFile->get());
  if (!constants)
    return constants.takeStatus();
  package->constants = std::move(*constants);
  bool hasCode = false;
  for (const ProgramT *each : package->programs()) {
    if (Status s = checkConstants(*each, package->constants); !s.ok())
      return s;
    hasCode |= !each->kernels.empty() || !each->sizes_function.empty();
  }

  if (hasCode) {
    if (Expected<Descriptor> kernels = open("kernels.so"); !kernels)
      return kernels.takeStatus();
    package->kernelsPath = path + "/kernels.so";
  }
  return package;
}

} // namespace

std::vector<const ProgramT *> Package::programs() const {
  std::vector<const ProgramT *> all{&program};
  for (const auto &variant : program.variants)
    all.push_back(variant.get());
  return all;
}

Expected<std::unique_ptr<Package>> readPackage(const std::string &path,
                                               const ReadOptions &options) {
  try {
    return read(path, options);
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return refuse("cannot read the package: " + std::string(e.what()));
  }
}

Expected<ProgramT> parseProgram(const void *bytes, size_t size) {
  auto *data = static_cast<const uint8_t *>(bytes);
  // Shorter than root offset and identifier: nothing may be looked at.
  if (size < 8 || !ProgramBufferHasIdentifier(data))
    return refuse("program.bin is not a program");
  flatbuffers::Verifier verifier(data, size);
  if (!VerifyProgramBuffer(verifier))
    return refuse("program.bin is truncated or malformed");
  ProgramT program;
  GetProgram(data)->UnPackTo(&program);
  if (Status s = verifyProgram(program); !s.ok())
    return s;
  return program;
}

} // namespace anabranch::package
