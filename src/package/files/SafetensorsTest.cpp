//===- SafetensorsTest.cpp - malformed headers are refused ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Safetensors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace anabranch::package {

static std::string reasonFor(const std::string &header, const std::string &data,
                             uint64_t statedLength = UINT64_MAX) {
  uint64_t length = statedLength == UINT64_MAX ? header.size() : statedLength;
  std::string file(reinterpret_cast<const char *>(&length), 8);
  file += header + data;
  int fd = ::memfd_create("test", MFD_CLOEXEC);
  EXPECT_EQ(::write(fd, file.data(), file.size()),
            static_cast<ssize_t>(file.size()));
  auto mapped = Safetensors::read(std::move(*Mapping::map(fd, "constants")));
  ::close(fd);
  return mapped ? "" : mapped.status().message();
}

TEST(Safetensors, AcceptsThePlainFormat) {
  EXPECT_EQ(reasonFor(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("__metadata__":{"format":"pt"}})",
                      "xy"),
            "");
  EXPECT_EQ(reasonFor("{}", ""), "");
}

TEST(Safetensors, RefusesMalformedHeaders) {
  const char *bad[] = {
      "",
      "[]",
      "{",
      R"({"a":1})",
      R"({"a":{"dtype":"U8","shape":[2]}})",
      R"({"a":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}})",
      R"({"a":{"dtype":3,"shape":[2],"data_offsets":[0,2]}})",
      R"({"a":{"dtype":"U8","shape":2,"data_offsets":[0,2]}})",
      R"({"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}})",
      R"({"a":{"dtype":"U8","shape":["2"],"data_offsets":[0,2]}})",
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})",
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})",
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0]}})",
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[-1,1]}})",
      R"({"a":{"dtype":"I64","shape":[4611686018427387904,4],
          "data_offsets":[0,0]}})",
      R"({"a":{"dtype":"U8","shape":[18446744073709551615],
          "data_offsets":[0,2]}})",
  };
  for (const char *header : bad)
    EXPECT_NE(reasonFor(header, "xy"), "") << header;
  EXPECT_NE(reasonFor("{}", "", 3), "");
  EXPECT_NE(reasonFor("{}", "", UINT64_MAX - 7), "");
  EXPECT_NE(reasonFor("{}", "", uint64_t(1) << 63), "");
}

/// How many bytes are resident of the mapping that contains an address.
static uint64_t residentBytes(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    uint64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= wanted && wanted < end;
    else if (inside && std::sscanf(line.c_str(), "Rss: %lu", &kilobytes) == 1)
      return kilobytes << 10;
  }
  return 0;
}

TEST(Safetensors, GivesItsPagesBack) {
  constexpr uint64_t bytes = 8 << 20;
  std::string header = R"({"a":{"dtype":"U8","shape":[8388608],)"
                       R"("data_offsets":[0,8388608]}})";
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), 8);
  file += header + std::string(bytes, 'x');
  int fd = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::write(fd, file.data(), file.size()),
            static_cast<ssize_t>(file.size()));
  auto mapped = Safetensors::read(std::move(*Mapping::map(fd, "constants")));
  ::close(fd);
  ASSERT_TRUE(bool(mapped));
  const auto *data = static_cast<const char *>(mapped->find("a")->data);
  auto isWhole = [&] { return std::count(data, data + bytes, 'x') == bytes; };
  EXPECT_TRUE(isWhole());
  EXPECT_GE(residentBytes(data), bytes);
  mapped->releasePages();
  EXPECT_LT(residentBytes(data), bytes / 8);
  EXPECT_TRUE(isWhole());
}

} // namespace anabranch::package
