//===- ProgramInfo.cpp - what a trace says about a program ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/ProgramInfo.h"

namespace anabranch::trace {

static std::string describe(const Operand &operand,
                            const std::vector<int64_t> &slots) {
  std::string text = operand.dtype + "[";
  for (size_t i = 0; i < operand.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(operand.shape[i].in(slots));
  return text + "]";
}

std::string shapesOf(const Label &label, const std::vector<int64_t> &slots) {
  std::string read, written;
  for (const Operand &operand : label.operands) {
    std::string &list = operand.written ? written : read;
    list += (list.empty() ? "" : ", ") + describe(operand, slots);
  }
  if (written.empty())
    return read;
  return read + (read.empty() ? "-> " : " -> ") + written;
}

double valueOf(const std::vector<Term> &terms,
               const std::vector<int64_t> &slots) {
  double sum = 0;
  for (const Term &term : terms) {
    double product = term.factor;
    for (const Extent &size : term.sizes)
      product *= static_cast<double>(size.in(slots));
    sum += product;
  }
  return sum;
}

} // namespace anabranch::trace
