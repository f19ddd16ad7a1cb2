//===- RecorderTest.cpp - slices reach the file, and none without a trace -===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "trace/Recorder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace anabranch::trace {

namespace {

nlohmann::json eventsOf(const std::string &path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file)["traceEvents"];
}

TEST(Recorder, WritesSlicesOfAllThreads) {
  std::string path =
      (std::filesystem::temp_directory_path() / "anabranch-trace-test.json")
          .string();
  std::shared_ptr<const LabelTable> labels = std::make_shared<LabelTable>(
      LabelTable{{"kernel0", "linear, gelu", "m.py", 12, "forward"}});
  EXPECT_EQ(Recorder::active(), nullptr);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(startTrace(path).ok());
    EXPECT_FALSE(startTrace(path).ok());
    Recorder *recorder = Recorder::active();
    auto work = [&] {
      for (int i = 0; i < 10; ++i)
        Scope scope(recorder, labels, 0, 3, i, 1);
    };
    std::thread other(work);
    work();
    other.join();
    ASSERT_TRUE(stopTrace().ok());
    EXPECT_FALSE(stopTrace().ok());
    int slices = 0, names = 0;
    for (const auto &event : eventsOf(path)) {
      names += event["ph"] == "M";
      if (event["ph"] != "X")
        continue;
      ++slices;
      EXPECT_EQ(event["name"], "kernel0");
      EXPECT_EQ(event["args"]["operators"], "linear, gelu");
      EXPECT_EQ(event["args"]["source"], "m.py:12");
      EXPECT_EQ(event["args"]["stream"], 3);
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
    EXPECT_EQ(slices, 20);
    EXPECT_EQ(names, 2);
  }
  std::filesystem::remove(path);
}

TEST(Recorder, SaysWhenTheFileCannotBeWritten) {
  ASSERT_TRUE(startTrace("/nowhere/at/all.json").ok());
  EXPECT_EQ(stopTrace().code(), StatusCode::IoError);
}

TEST(Recorder, CostsNothingWhenOff) {
  Scope scope(nullptr, nullptr, 0, 0);
  EXPECT_EQ(Recorder::active(), nullptr);
}

} // namespace
} // namespace anabranch::trace
