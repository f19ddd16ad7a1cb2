//===- LogTest.cpp - lines of text and of JSON ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>

using namespace anabranch::trace;

TEST(Log, PlainLinesNameTheProgram) {
  EXPECT_EQ(warningLine("anabranch-run", "no file", false),
            "anabranch-run: no file");
}

TEST(Log, LinesOfJsonHoldAnyText) {
  for (const char *text :
       {"no file", "a \"quote\"\nand a line", "\xff\xfe", ""}) {
    std::string line = warningLine("anabranch", text, true);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    nlohmann::json read = nlohmann::json::parse(line);
    EXPECT_EQ(read["level"], "warning");
    EXPECT_EQ(read["event"], "warning");
    EXPECT_EQ(read["kind"], "anabranch");
    if (text[0] != '\xff') {
      EXPECT_EQ(read["text"], text);
    }
    EXPECT_TRUE(std::regex_match(
        read["time"].get<std::string>(),
        std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00)")));
  }
}
