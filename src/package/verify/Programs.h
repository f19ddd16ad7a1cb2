//===- Programs.h - the programs of a package -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_PROGRAMS_H
#define ANABRANCH_PACKAGE_VERIFY_PROGRAMS_H

#include "package/program_generated.h"

#include <vector>

namespace anabranch::package {

/// The programs that a call may begin in: the program, then its variants.
template <typename Program> std::vector<Program *> entriesOf(Program &program) {
  std::vector<Program *> all{&program};
  for (const auto &variant : program.variants)
    all.push_back(variant.get());
  return all;
}

/// The entries, each before its regions.
template <typename Program>
std::vector<Program *> programsOf(Program &program) {
  std::vector<Program *> all;
  for (Program *entry : entriesOf(program)) {
    all.push_back(entry);
    for (const auto &region : entry->regions)
      all.push_back(region.get());
  }
  return all;
}

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_PROGRAMS_H
