//===- Targets.cpp - which processor's code to run ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/targets/Targets.h"

#include "machine/processor/CpuFeatures.h"

#include <cstdlib>

namespace anabranch::package {

std::string whyNotHere(const std::string &cpu,
                       const std::vector<std::string> &features) {
  if (cpu.empty())
    return "";
  if (cpu != machine::hostCpu())
    return "it was made for " + cpu + ", this machine is " + machine::hostCpu();
  std::string list;
  for (const std::string &feature : machine::missingFeatures(features))
    list += (list.empty() ? "" : ", ") + feature;
  return list.empty() ? "" : "this CPU lacks what its kernels need: " + list;
}

static std::string namesOf(const Manifest &manifest) {
  std::string list;
  for (const ManifestTarget &target : manifest.targets)
    list += (list.empty() ? "" : ", ") + target.name;
  return list;
}

static Status unsupported(const std::string &message) {
  return Status(StatusCode::Unsupported, message);
}

static Expected<const ManifestTarget *>
findTarget(const Manifest &manifest, const std::string &name, bool checkCpu) {
  for (const ManifestTarget &target : manifest.targets) {
    if (target.name != name)
      continue;
    std::string why = whyNotHere(target.cpu, target.features);
    if (checkCpu && !why.empty())
      return unsupported("target '" + name + "' of the package: " + why);
    return &target;
  }
  return unsupported("the package has no target '" + name +
                     "', only: " + namesOf(manifest));
}

Expected<const ManifestTarget *> chooseTarget(const Manifest &manifest,
                                              const std::string &wanted,
                                              bool checkCpu) {
  if (manifest.targets.empty()) {
    // ANABRANCH_TARGET counts for every package of a process, also for those
    // without this target.
    if (!wanted.empty())
      return unsupported("the package has one program and no target '" +
                         wanted + "'");
    std::string why = whyNotHere(manifest.cpu, manifest.features);
    if (checkCpu && !why.empty())
      return unsupported("the package does not run here: " + why +
                         "; compile the model for this machine");
    return static_cast<const ManifestTarget *>(nullptr);
  }
  const char *variable = std::getenv("ANABRANCH_TARGET");
  std::string name = wanted.empty() && variable ? variable : wanted;
  if (!name.empty())
    return findTarget(manifest, name, checkCpu);
  std::string reasons;
  for (const ManifestTarget &target : manifest.targets) {
    std::string why = whyNotHere(target.cpu, target.features);
    if (why.empty())
      return &target;
    reasons += "\n  " + target.name + ": " + why;
  }
  if (!checkCpu)
    return &manifest.targets.front();
  return unsupported("no target of the package runs here:" + reasons +
                     "\nexport the model for this machine too");
}

} // namespace anabranch::package
