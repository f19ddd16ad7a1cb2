//===- Writer.cpp - write a package folder --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/Writer.h"

#include "anabranch/KernelABI.h"
#include "package/files/Files.h"
#include "package/files/Manifest.h"
#include "package/folder/Staging.h"
#include "package/verify/ProgramVerifier.h"
#include "package/verify/Programs.h"

#include <fcntl.h>
#include <set>
#include <sys/stat.h>

namespace anabranch::package {

namespace {

Status writeKernels(const Staging &staging, const Contents &contents,
                    ManifestFile &row) {
  std::string target = staging.path + "/kernels.so";
  if (contents.takeKernels &&
      ::rename(contents.kernelsPath.c_str(), target.c_str()) == 0) {
    if (::chmod(target.c_str(), 0600) != 0)
      return ioError("cannot protect the kernels");
    Expected<Descriptor> file = openFile(staging.folder, "kernels.so");
    if (!file)
      return file.takeStatus();
    Expected<uint64_t> bytes = sizeOf(*file);
    if (!bytes)
      return bytes.takeStatus();
    row.bytes = *bytes;
    if (!contents.hashFiles)
      return {};
    Expected<std::string> hash = hashAll(*file);
    if (!hash)
      return hash.takeStatus();
    row.hash = *hash;
    return {};
  }
  Descriptor source(::open(contents.kernelsPath.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid())
    return ioError("cannot open the kernels " + contents.kernelsPath);
  Expected<std::string> bytes = readAll(source, uint64_t(4) << 30);
  if (!bytes)
    return bytes.takeStatus();
  return writeText(staging.folder, "kernels.so", *bytes, contents.hashFiles,
                   row);
}

Manifest describe(const Contents &contents) {
  Manifest m;
  m.abi = ANABRANCH_KERNEL_ABI_VERSION;
  m.anabranch = ANABRANCH_VERSION;
  m.name = contents.program->name;
  m.cpu = contents.targetCpu;
  m.features = contents.targetFeatures;
  std::set<std::string> kernels;
  for (const ProgramT *program : programsOf(*contents.program)) {
    m.needsLibtorch |= program->needs_libtorch;
    for (const auto &kernel : program->kernels)
      if (kernels.insert(kernel->name).second)
        m.kernels.push_back(kernel->name);
  }
  m.config = contents.config.empty() ? "{}" : contents.config;
  m.extras = contents.extras;
  return m;
}

Status write(const std::string &path, const Contents &contents) {
  if (!contents.program)
    return Status(StatusCode::Internal, "a package needs a program");
  // A wrong program is a bug of ours. The writer finds it sooner than a reader.
  if (Status s = verifyProgram(*contents.program); !s.ok())
    return Status(StatusCode::Internal,
                  "the compiler made a wrong program: " + s.message());
  Staging staging(path);
  if (Status s = staging.make(); !s.ok())
    return s;
  Manifest manifest = describe(contents);
  bool hash = contents.hashFiles;
  if (Status s = writeText(staging.folder, "program.bin",
                           serializeProgram(*contents.program), hash,
                           manifest.files["program.bin"]);
      !s.ok())
    return s;
  if (Status s = writeConstants(staging.folder, contents.constants, hash,
                                manifest.files["constants.safetensors"]);
      !s.ok())
    return s;
  if (!contents.kernelsPath.empty())
    if (Status s =
            writeKernels(staging, contents, manifest.files["kernels.so"]);
        !s.ok())
      return s;
  ManifestFile ignored;
  if (Status s = writeText(staging.folder, "manifest.json", toJson(manifest),
                           false, ignored);
      !s.ok())
    return s;
  return staging.publish(path, Existing::Replace);
}

} // namespace

Status writePackage(const std::string &path, const Contents &contents) {
  return guarded(
      path, [&](const std::string &target) { return write(target, contents); });
}

std::string serializeProgram(const ProgramT &program) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Program::Pack(builder, &program), ProgramIdentifier());
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
}

} // namespace anabranch::package
