//===- Combine.cpp - one package for several processors -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Combine.h"

#include "anabranch/Executable.h"
#include "package/folder/CombineTargets.h"
#include "package/targets/Targets.h"

namespace anabranch {

using namespace package;

/// Opens the package. Runs its `initialize` too, if this machine can.
static Status load(const TargetPackage &given, LoadedTarget &target,
                   std::vector<std::shared_ptr<const Executable>> &running) {
  ReadOptions reading;
  reading.checkHashes = reading.checkCpu = false;
  Expected<std::unique_ptr<Package>> read = readPackage(given.path, reading);
  if (!read)
    return read.takeStatus();
  target.name = given.name;
  target.package = std::move(*read);
  const Manifest &m = target.package->manifest;
  if (!whyNotHere(m.cpu, m.features).empty() || m.needsLibtorch ||
      !initializes(*target.package))
    return {};
  OpenOptions opening;
  opening.checkHashes = false;
  auto opened = Executable::open(given.path, opening);
  if (!opened)
    return opened.takeStatus();
  target.prepared = (*opened)->preparedWeights();
  running.push_back(std::move(*opened));
  return {};
}

Status combinePackages(const std::string &path,
                       const std::vector<TargetPackage> &targets,
                       const CombineOptions &options) {
  try {
    Combination combination;
    combination.signature = options.signature;
    combination.replace = options.replace;
    for (const StateValue &value : options.state)
      combination.state.push_back(
          {value.input, value.dtype, value.shape, value.data});
    std::vector<std::shared_ptr<const Executable>> running;
    for (const TargetPackage &target : targets)
      if (Status s = load(target, combination.targets.emplace_back(), running);
          !s.ok())
        return s;
    return combineTargets(path, std::move(combination));
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  }
}

} // namespace anabranch
