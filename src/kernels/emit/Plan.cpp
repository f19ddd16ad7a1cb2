//===- Plan.cpp - one way to make a kernel --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Plan.h"

#include <cmath>
#include <limits>
#include <tuple>

namespace anabranch {
namespace kernels {

bool PlanCost::operator<(const PlanCost &other) const {
  constexpr double unknown = std::numeric_limits<double>::infinity();
  return std::tuple(rank, cycles.value_or(unknown)) <
         std::tuple(other.rank, other.cycles.value_or(unknown));
}

std::string PlanCost::text() const {
  if (!cycles)
    return "";
  return "about " + std::to_string(std::llround(*cycles)) + " cycles";
}

} // namespace kernels
} // namespace anabranch
