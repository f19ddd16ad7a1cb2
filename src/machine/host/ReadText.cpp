//===- ReadText.cpp - a small file of the system as text ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/ReadText.h"

#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace anabranch::machine {

std::string readText(const std::string &path) {
  constexpr size_t most = size_t(4) << 20;
  std::string text;
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return text;
  char piece[4096];
  // Files of the kernel claim a size of 0, so the loop reads until the end.
  for (ssize_t got;
       text.size() < most && (got = ::read(file, piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<size_t>(got));
  ::close(file);
  return text;
}

std::vector<std::string_view> splitText(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin)
      parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<int64_t> parseNumber(std::string_view text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

} // namespace anabranch::machine
