//===- Refusals.h - why a program is refused --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_REFUSALS_H
#define ANABRANCH_PACKAGE_VERIFY_REFUSALS_H

#include "anabranch/Status.h"
#include "package/program_generated.h"

#include <string>
#include <vector>

namespace anabranch::package {

inline bool isStatic(const Size &size) { return size.slot() < 0; }

template <typename List> bool within(int index, const List &list) {
  return index >= 0 && static_cast<size_t>(index) < list.size();
}

/// Keeps the first thing that is wrong with a program, and where it is.
class Refusals {
public:
  explicit Refusals(const ProgramT &program) : program(program) {}

  void require(bool holds, const std::string &where, const char *what) {
    if (!holds && first.ok())
      first = Status(StatusCode::BadPackage,
                     "program is refused: " + where + " " + what);
  }
  void refuse(Status status) { first = std::move(status); }
  bool any() const { return !first.ok(); }
  Status take() { return std::move(first); }

  void checkSize(const Size &size, const std::string &where);
  void checkSizes(const std::vector<Size> &sizes, const std::string &where);

private:
  const ProgramT &program;
  Status first;
};

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_REFUSALS_H
