//===- Target.cpp - the processor that kernels are made for ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/target/Target.h"

#include "machine/processor/CpuModels.h"
#include "native/isa/portable/PortableIsa.h"
#include "native/target/Architectures.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace anabranch {
namespace native {
namespace {

/// The features of this machine, in a fixed order, so that equal machines have
/// equal cache keys.
std::string hostFeatures(const Architecture &architecture) {
  std::vector<std::string> parts = {architecture.tuning};
  for (const auto &feature : architecture.hostFeatures())
    parts.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::sort(parts.begin(), parts.end());
  return llvm::join(parts, ",");
}

/// The fixed target of this name and its architecture; null if there is none.
std::pair<const NamedTarget *, const Architecture *> findNamed(StringRef name) {
  for (const Architecture *architecture : architectures())
    for (const NamedTarget &target : architecture->targets())
      if (name == target.name)
        return {&target, architecture};
  return {nullptr, nullptr};
}

/// The names of all targets, for a message.
std::string targetNames() {
  std::string names = "host, native, portable";
  for (const Architecture *architecture : architectures())
    for (const NamedTarget &target : architecture->targets())
      names += ", " + target.name;
  return names;
}

/// The rate of a multiply that the model of the table lacks, as a multiple of
/// FmaF32's.
double usualRate(Multiply multiply) {
  switch (multiply) {
  case Multiply::FmaF32:
  case Multiply::DotBF16:
    return 1;
  case Multiply::FmaF16:
    return 2;
  case Multiply::DotInt8:
    return 4;
  case Multiply::TileBF16:
    return 16;
  case Multiply::TileInt8:
    return 32;
  }
  return 0;
}

} // namespace

void TargetInfo::setFamily(const Architecture &architecture) {
  family = &architecture;
  triple = architecture.triple;
}

void TargetInfo::describeHost() {
  cpu = sys::getHostCPUName().str();
  features = hostFeatures(*family);
  model = machine::hostCpuModel();
  instructions = family->createIsa(features);
}

Expected<TargetInfo> TargetInfo::get(StringRef name) {
  TargetInfo target;
  target.name = name.str();
  bool isHost = name == "host" || name == "native";
  if (auto [named, architecture] = findNamed(name); named) {
    target.setFamily(*architecture);
    target.cpu = named->cpu;
    target.features = named->features;
    target.model = *machine::findCpuModel(named->model);
    target.instructions = architecture->createIsa(target.features);
  } else if (!isHost && name != "portable") {
    return createStringError("unknown target '%s': it must be one of %s",
                             target.name.c_str(), targetNames().c_str());
  } else if (const Architecture *host = hostArchitecture(); !host) {
    return createStringError("there is no code for this machine's processor");
  } else {
    target.setFamily(*host);
    target.cpu = "generic";
    target.model = *machine::findCpuModel(host->portableModel);
    if (isHost)
      target.describeHost();
  }
  if (!target.instructions)
    target.instructions = std::make_shared<PortableIsa>();
  return target;
}

double TargetInfo::rate(Multiply multiply) const {
  if (!isa().has(multiply))
    return 0;
  double known = model.rate(multiply);
  return known ? known : model.rate(Multiply::FmaF32) * usualRate(multiply);
}

bool TargetInfo::runsHere() const {
  if (family != hostArchitecture())
    return false;
  StringMap<bool> host = family->hostFeatures();
  SmallVector<StringRef> parts;
  StringRef(features).split(parts, ',', -1, /*KeepEmpty=*/false);
  return llvm::all_of(parts, [&](StringRef part) {
    return !part.consume_front("+") || host.lookup(part);
  });
}

Expected<std::unique_ptr<TargetMachine>>
TargetInfo::createTargetMachine() const {
  family->initialize();
  std::string error;
  const Target *llvmTarget = TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget)
    return createStringError("LLVM has no target '%s': %s", triple.c_str(),
                             error.c_str());
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> machine(llvmTarget->createTargetMachine(
      triple, cpu, features, options, Reloc::PIC_, std::nullopt,
      CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM can make no code for '%s'", cpu.c_str());
  return machine;
}

} // namespace native
} // namespace anabranch
