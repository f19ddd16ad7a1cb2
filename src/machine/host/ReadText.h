//===- ReadText.h - a small file of the system as text ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_READTEXT_H
#define ANABRANCH_MACHINE_HOST_READTEXT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::machine {

/// The first 4 MiB of a file; empty if the file cannot be read.
std::string readText(const std::string &path);

/// The parts of `text` between separators, without empty ones.
std::vector<std::string_view> splitText(std::string_view text, char separator);

/// The decimal number that `text` consists of. None for any other text, or if
/// the number does not fit.
std::optional<int64_t> parseNumber(std::string_view text);

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_READTEXT_H
