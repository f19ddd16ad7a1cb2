//===- ProgramInfo.h - what a trace says about a program --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_PROGRAMINFO_H
#define ANABRANCH_TRACE_PROGRAMINFO_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::trace {

/// A number known when the program was made (slot < 0), or a slot of a call's
/// size table.
struct Extent {
  int64_t value = 0;
  int slot = -1;
  int64_t in(const std::vector<int64_t> &slots) const {
    return slot < 0 ? value : slots[static_cast<size_t>(slot)];
  }
};

/// A tensor that a command reads or writes.
struct Operand {
  std::string dtype;
  std::vector<Extent> shape;
  bool written = false;
};

/// A factor times some sizes.
struct Term {
  double factor = 0;
  std::vector<Extent> sizes;
};

/// The work of a command: floating-point operations and bytes, as sums of
/// terms.
struct Work {
  std::vector<Term> flops, bytes;
};

/// A command's description in a trace. A slice names it by its index in
/// ProgramInfo::labels.
struct Label {
  std::string name;      ///< kernel or operator
  std::string operators; ///< "linear, gelu"
  std::string file;
  int line = 0;
  std::string function;
  const char *kind = "launch"; ///< or "call", "copy", "super", "branch", "loop"
  int stream = 0;              ///< in ProgramInfo::streams
  int super = -1; ///< label of the super kernel that this launch is part of
  std::vector<Operand> operands;
  std::optional<Work> work; ///< nothing: unknown
  std::string shown;        ///< name for a SliceListener
};

struct StreamInfo {
  std::string name;
  int priority = 0;
};

/// Command `to` waits for the event that is recorded after command `from`.
struct EventEdge {
  int from, to; ///< labels
};

/// The part of a trace that is the same for every call of a program.
struct ProgramInfo {
  std::string name;
  std::string shown; ///< name for a SliceListener
  std::vector<StreamInfo> streams;
  std::vector<Label> labels;
  std::vector<EventEdge> events;
};

/// "f32[8, 128], f32[128] -> f32[8, 128]"
std::string shapesOf(const Label &label, const std::vector<int64_t> &slots);

/// The sum of the terms for these sizes.
double valueOf(const std::vector<Term> &terms,
               const std::vector<int64_t> &slots);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_PROGRAMINFO_H
