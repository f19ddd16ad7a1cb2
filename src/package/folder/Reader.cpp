//===- Reader.cpp - read and check a package folder -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/Reader.h"

#include "anabranch/KernelABI.h"
#include "package/files/Files.h"
#include "package/targets/Targets.h"
#include "package/verify/Actions.h"
#include "package/verify/ProgramVerifier.h"
#include "package/verify/Programs.h"

namespace anabranch::package {

namespace {

constexpr uint64_t manifestLimit = 64u << 20;
constexpr uint64_t programLimit = 1u << 30;

Status refuse(const std::string &why) {
  return Status(StatusCode::BadPackage, why);
}

/// Moves the value to `place`, or returns the error.
template <typename T> Status take(Expected<T> value, T &place) {
  if (!value)
    return value.takeStatus();
  place = std::move(*value);
  return {};
}

/// The contents of a file, if it was opened.
Expected<std::string> contentsOf(Expected<Descriptor> file, uint64_t limit) {
  if (!file)
    return file.takeStatus();
  return readAll(*file, limit);
}

Status checkVersion(const Manifest &m) {
  if (m.abi == ANABRANCH_KERNEL_ABI_VERSION)
    return {};
  return Status(StatusCode::Unsupported,
                "the package was made for kernel ABI " + std::to_string(m.abi) +
                    ", this runtime has " +
                    std::to_string(ANABRANCH_KERNEL_ABI_VERSION) +
                    "; compile the model again with this version");
}

/// Opens the files of a package, and compares each with its line in the
/// manifest.
class Files {
public:
  Files(const Manifest &manifest, const ReadOptions &options, Trust trust)
      : manifest(manifest), options(options), trust(trust) {}

  /// Opens the target's folder, or the package itself if it has no targets.
  Status enter(const Descriptor &package, const std::string &target) {
    if (target.empty())
      return {};
    Expected<Descriptor> targets = openFolder(package, "targets", trust);
    if (!targets)
      return targets.takeStatus();
    Expected<Descriptor> found = openFolder(*targets, target, trust);
    if (!found)
      return found.takeStatus();
    folder = std::move(*found);
    prefix = "targets/" + target + "/";
    return {};
  }
  /// Opens a file of the target.
  Expected<Descriptor> open(const Descriptor &package,
                            const std::string &name) const {
    return openChecked(prefix.empty() ? package : folder, name, prefix + name);
  }
  std::string pathOf(const std::string &name) const { return prefix + name; }

  /// Maps a file of the target. Hashing then touches the pages that calls read.
  Expected<Mapping> map(const Descriptor &package,
                        const std::string &name) const {
    return mapChecked(prefix.empty() ? package : folder, name, prefix + name);
  }
  Expected<Mapping> mapShared(const Descriptor &package,
                              const std::string &name) const {
    return mapChecked(package, name, name);
  }

private:
  Expected<Descriptor> openChecked(const Descriptor &place,
                                   const std::string &name,
                                   const std::string &listed) const;
  Expected<Mapping> mapChecked(const Descriptor &place, const std::string &name,
                               const std::string &listed) const;
  /// Opens a file that has the size in the manifest.
  Expected<Descriptor> openSized(const Descriptor &place,
                                 const std::string &name,
                                 const std::string &listed) const;
  Status compare(const std::string &hash, const std::string &listed) const;

  const Manifest &manifest;
  const ReadOptions &options;
  const Trust trust;
  Descriptor folder;
  std::string prefix;
};

Expected<Descriptor> Files::openSized(const Descriptor &place,
                                      const std::string &name,
                                      const std::string &listed) const {
  auto row = manifest.files.find(listed);
  if (row == manifest.files.end())
    return refuse("manifest.json does not list " + listed);
  Expected<Descriptor> file = openFile(place, name, trust);
  if (!file)
    return file;
  Expected<uint64_t> bytes = sizeOf(*file);
  if (!bytes)
    return bytes.takeStatus();
  if (*bytes != row->second.bytes)
    return refuse(listed + " has " + std::to_string(*bytes) +
                  " bytes where the manifest says " +
                  std::to_string(row->second.bytes) +
                  ": it was truncated or changed");
  if (options.checkHashes && row->second.hash.empty())
    return refuse("the manifest has no hash for " + listed);
  return file;
}

Status Files::compare(const std::string &hash,
                      const std::string &listed) const {
  if (hash == manifest.files.at(listed).hash)
    return {};
  return refuse(listed +
                " differs from its hash in the manifest: it was changed");
}

Expected<Descriptor> Files::openChecked(const Descriptor &place,
                                        const std::string &name,
                                        const std::string &listed) const {
  Expected<Descriptor> file = openSized(place, name, listed);
  if (!file || !options.checkHashes)
    return file;
  Expected<std::string> hash = hashAll(*file);
  if (!hash)
    return hash.takeStatus();
  if (Status s = compare(*hash, listed); !s.ok())
    return s;
  return file;
}

Expected<Mapping> Files::mapChecked(const Descriptor &place,
                                    const std::string &name,
                                    const std::string &listed) const {
  Expected<Descriptor> file = openSized(place, name, listed);
  if (!file)
    return file.takeStatus();
  Expected<Mapping> mapped = Mapping::map(file->get(), name);
  if (!mapped || !options.checkHashes)
    return mapped;
  std::string hash = FileHash::of(mapped->data(), mapped->size());
  if (Status s = compare(hash, listed); !s.ok())
    return s;
  return mapped;
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

/// The dtype of the parts of a complex dtype; of another one itself.
anabranch::DType partOf(anabranch::DType dtype) {
  if (dtype == anabranch::DType::C64)
    return anabranch::DType::F32;
  return dtype == anabranch::DType::C128 ? anabranch::DType::F64 : dtype;
}

/// Whether tensors of these dtypes and shapes have equal numbers of equal
/// parts.
bool sameParts(anabranch::DType a, const std::vector<int64_t> &aShape,
               anabranch::DType b, const std::vector<int64_t> &bShape) {
  return partOf(a) == partOf(b) && itemSize(a) * elementCount(aShape) ==
                                       itemSize(b) * elementCount(bShape);
}

/// Checks that the package has the constants that calls read, and that
/// `initialize` reads if it must run, with the types that the program expects.
/// A buffer may have another shape than its constant, or the parts of complex
/// numbers as elements: neither a reshape nor that is a kernel.
Status checkConstants(const ProgramT &program, const Safetensors &constants,
                      bool prepared) {
  std::vector<bool> read = readByCalls(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferT &buffer = *program.buffers[i];
    if (buffer.kind != BufferKind::Constant || (prepared && !read[i]))
      continue;
    const StoredTensor *tensor = constants.find(buffer.name);
    if (!tensor)
      return refuse("constant '" + buffer.name + "' is missing");
    auto dtype = static_cast<anabranch::DType>(buffer.dtype);
    std::vector<int64_t> shape;
    for (const Size &size : buffer.shape)
      shape.push_back(size.value());
    bool isSame =
        tensor->dtype == dtype && sameShape(buffer.shape, tensor->shape);
    if (!isSame && !sameParts(tensor->dtype, tensor->shape, dtype, shape))
      return refuse("constant '" + buffer.name +
                    "' is not what the program expects");
  }
  return {};
}

/// Checks that the signature agrees with the program, and that states have
/// first values.
Status checkSignature(const Signature &signature, const ProgramT &program,
                      const Safetensors &constants) {
  if (signature.json.empty())
    return {};
  if (signature.inputs.size() != program.inputs.size() ||
      signature.outputs.size() != program.outputs.size())
    return refuse("its signature has other inputs or outputs than its program");
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const InputT &input = *program.inputs[i];
    const Signature::Input &named = signature.inputs[i];
    if (named.name != input.name)
      return refuse("its signature calls input '" + input.name + "' '" +
                    named.name + "'");
    if (!named.state)
      continue;
    const StoredTensor *first = constants.find(stateConstant(named.name));
    if (!first || input.is_scalar || !input.mutated ||
        first->dtype != static_cast<anabranch::DType>(input.dtype) ||
        !sameShape(input.shape, first->shape) || !input.strides.empty())
      return refuse("state '" + named.name + "' has no fitting first value");
  }
  return {};
}

Status readProgram(const Files &files, const Descriptor &folder,
                   Package &package) {
  Expected<std::string> bytes =
      contentsOf(files.open(folder, "program.bin"), programLimit);
  if (!bytes)
    return bytes.takeStatus();
  return take(parseProgram(bytes->data(), bytes->size()), package.program);
}

Status readPrepared(const Files &files, const Descriptor &folder,
                    Package &package) {
  if (Status s = take(files.map(folder, "prepared.bin"), package.prepared);
      !s.ok())
    return s;
  const auto &wanted = package.program.persistent_bytes;
  if (!wanted ||
      static_cast<uint64_t>(wanted->value()) != package.prepared.size())
    return refuse("prepared.bin is not what the program expects");
  return {};
}

Status readConstants(const Files &files, const Descriptor &folder,
                     Package &package) {
  Expected<Mapping> mapped = files.mapShared(folder, "constants.safetensors");
  if (!mapped)
    return mapped.takeStatus();
  if (Status s = take(Safetensors::read(std::move(*mapped)), package.constants);
      !s.ok())
    return s;
  for (const ProgramT *each : package.programs())
    if (Status s = checkConstants(*each, package.constants,
                                  package.prepared.size() > 0);
        !s.ok())
      return s;
  return checkSignature(package.manifest.signature, package.program,
                        package.constants);
}

Status readManifest(const Descriptor &folder, Trust trust, Manifest &manifest) {
  Expected<std::string> text =
      contentsOf(openFile(folder, "manifest.json", trust), manifestLimit);
  if (!text)
    return text.takeStatus();
  return take(parseManifest(*text), manifest);
}

Expected<std::unique_ptr<Package>> read(const std::string &path,
                                        const ReadOptions &options) {
  auto package = std::make_unique<Package>();
  package->path = path;
  Expected<Trust> trust = trustNamed(options.trust);
  if (!trust)
    return trust.takeStatus();
  Expected<Descriptor> folder = openFolder(path, *trust);
  if (!folder)
    return folder.takeStatus();
  if (Status s = readManifest(*folder, *trust, package->manifest); !s.ok())
    return s;
  if (Status s = checkVersion(package->manifest); !s.ok())
    return s;
  Expected<const ManifestTarget *> target =
      chooseTarget(package->manifest, options.target, options.checkCpu);
  if (!target)
    return target.takeStatus();
  if (*target)
    package->target = (*target)->name;
  Files files(package->manifest, options, *trust);
  if (Status s = files.enter(*folder, package->target); !s.ok())
    return s;
  if (Status s = readProgram(files, *folder, *package); !s.ok())
    return s;
  if (*target && (*target)->prepared)
    if (Status s = readPrepared(files, *folder, *package); !s.ok())
      return s;
  if (Status s = readConstants(files, *folder, *package); !s.ok())
    return s;
  bool hasCode = false;
  for (const ProgramT *each : package->programs())
    hasCode |= !each->kernels.empty() || !each->sizes_function.empty();
  if (hasCode) {
    if (Expected<Descriptor> kernels = files.open(*folder, "kernels.so");
        !kernels)
      return kernels.takeStatus();
    package->kernelsPath = path + "/" + files.pathOf("kernels.so");
  }
  return package;
}

} // namespace

std::vector<const ProgramT *> Package::programs() const {
  return programsOf(program);
}

std::vector<const ProgramT *> Package::entries() const {
  return entriesOf(program);
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
  // A file shorter than root offset and identifier must not be looked at
  // further.
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
