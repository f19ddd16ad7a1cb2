//===- CombineTargets.cpp - one package of several ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/CombineTargets.h"

#include "package/folder/Staging.h"
#include "package/verify/Actions.h"

#include <algorithm>
#include <fcntl.h>
#include <map>

namespace anabranch::package {

namespace {

constexpr uint64_t fileLimit = uint64_t(4) << 30;

Status wrong(const std::string &why) {
  return Status(StatusCode::InvalidArgument, why);
}

bool isPrepared(const LoadedTarget &target) {
  const auto &bytes = target.package->program.persistent_bytes;
  return target.prepared && bytes && bytes->value() > 0;
}

/// Whether `initialize` need not run. The constants that only it reads are then
/// left out.
bool needsNoInitialize(const LoadedTarget &target) {
  return isPrepared(target) || !initializes(*target.package);
}

/// Adds the constants that calls read or, if `all`, that `initialize` reads
/// too.
Status addConstants(const ProgramT &program, const Safetensors &stored,
                    bool all, std::map<std::string, Constant> &found) {
  std::vector<bool> read = readByCalls(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferT &buffer = *program.buffers[i];
    if (buffer.kind != BufferKind::Constant || (!all && !read[i]))
      continue;
    const StoredTensor &t = *stored.find(buffer.name);
    Constant &constant = found[buffer.name];
    if (constant.data &&
        (constant.dtype != t.dtype || constant.shape != t.shape))
      return wrong("the targets have different constants '" + buffer.name +
                   "'");
    constant = {buffer.name, t.dtype, t.shape, t.data};
  }
  return {};
}

/// The constants that some target needs, and the first values of states.
Expected<std::vector<Constant>> constantsOf(const Combination &c) {
  bool all =
      !std::all_of(c.targets.begin(), c.targets.end(), needsNoInitialize);
  std::map<std::string, Constant> found;
  for (const LoadedTarget &target : c.targets)
    for (const ProgramT *program : target.package->programs())
      if (Status s =
              addConstants(*program, target.package->constants, all, found);
          !s.ok())
        return s;
  std::vector<Constant> constants;
  for (auto &[name, constant] : found)
    constants.push_back(std::move(constant));
  for (const Constant &state : c.state)
    constants.push_back(
        {stateConstant(state.name), state.dtype, state.shape, state.data});
  return constants;
}

ManifestTarget describe(const LoadedTarget &target) {
  const Manifest &m = target.package->manifest;
  return {target.name, m.cpu, m.features, m.kernels, isPrepared(target)};
}

/// The manifest of the combined package, without its files.
Expected<Manifest> describe(const Combination &c) {
  Manifest m = c.targets.front().package->manifest;
  m.cpu.clear();
  m.features.clear();
  m.kernels.clear();
  m.files.clear();
  for (const LoadedTarget &target : c.targets) {
    if (!target.package->target.empty())
      return wrong("target '" + target.name + "' is a combined package itself");
    if (target.package->program.inputs.size() !=
            c.targets.front().package->program.inputs.size() ||
        target.package->program.outputs.size() !=
            c.targets.front().package->program.outputs.size())
      return wrong("the targets were not made of the same graph");
    m.needsLibtorch |= target.package->manifest.needsLibtorch;
    m.targets.push_back(describe(target));
  }
  m.signature.json = c.signature;
  // Parsing refuses here what a reader would refuse later.
  return parseManifest(toJson(m));
}

Status copyFile(const std::string &from, const Descriptor &folder,
                const std::string &name, ManifestFile &row) {
  Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid())
    return ioError("cannot open " + from);
  Expected<std::string> bytes = readAll(source, fileLimit);
  if (!bytes)
    return bytes.takeStatus();
  return writeText(folder, name, *bytes, true, row);
}

Status writeTarget(Staging &staging, const LoadedTarget &target,
                   std::map<std::string, ManifestFile> &files) {
  std::string prefix = "targets/" + target.name;
  Expected<Descriptor> folder = staging.makeFolder(prefix);
  if (!folder)
    return folder.takeStatus();
  const Package &package = *target.package;
  if (Status s =
          writeText(*folder, "program.bin", serializeProgram(package.program),
                    true, files[prefix + "/program.bin"]);
      !s.ok())
    return s;
  if (!package.kernelsPath.empty())
    if (Status s = copyFile(package.kernelsPath, *folder, "kernels.so",
                            files[prefix + "/kernels.so"]);
        !s.ok())
      return s;
  if (!isPrepared(target))
    return {};
  ManifestFile &row = files[prefix + "/prepared.bin"];
  FileWriter file(*folder, "prepared.bin", true);
  file.write(target.prepared,
             static_cast<size_t>(package.program.persistent_bytes->value()));
  return file.finish(row.bytes, row.hash);
}

Status combine(const std::string &path, Combination &c) {
  if (c.targets.empty())
    return wrong("a package needs a target");
  // The target with the most features comes first: it has the best kernels.
  std::sort(c.targets.begin(), c.targets.end(),
            [](const LoadedTarget &a, const LoadedTarget &b) {
              size_t ours = a.package->manifest.features.size(),
                     theirs = b.package->manifest.features.size();
              return ours != theirs ? ours > theirs : a.name < b.name;
            });
  Expected<Manifest> manifest = describe(c);
  if (!manifest)
    return manifest.takeStatus();
  Expected<std::vector<Constant>> constants = constantsOf(c);
  if (!constants)
    return constants.takeStatus();
  Staging staging(path);
  if (Status s = staging.make(); !s.ok())
    return s;
  if (Status s = writeConstants(staging.folder, *constants, true,
                                manifest->files["constants.safetensors"]);
      !s.ok())
    return s;
  for (const LoadedTarget &target : c.targets)
    if (Status s = writeTarget(staging, target, manifest->files); !s.ok())
      return s;
  ManifestFile ignored;
  if (Status s = writeText(staging.folder, "manifest.json", toJson(*manifest),
                           false, ignored);
      !s.ok())
    return s;
  return staging.publish(path,
                         c.replace ? Existing::Replace : Existing::Refuse);
}

} // namespace

bool initializes(const Package &package) {
  for (const ProgramT *program : package.programs())
    if (!program->initialize.empty())
      return true;
  return false;
}

Status combineTargets(const std::string &path, Combination combination) {
  return guarded(path, [&](const std::string &target) {
    return combine(target, combination);
  });
}

} // namespace anabranch::package
