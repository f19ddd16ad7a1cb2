//===- RecorderTest.cpp - slices reach the file, and none without a trace -===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Recorder.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace anabranch::trace {

namespace {

nlohmann::json read(const std::string &path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// Two streams; the command of the second waits for that of the first.
std::shared_ptr<const ProgramInfo> twoStreams() {
  auto info = std::make_shared<ProgramInfo>();
  info->name = "model";
  info->streams = {{"main", 0}, {"side", 5}};
  Label first;
  first.name = "kernel0";
  first.operators = "linear, gelu";
  first.file = "m.py";
  first.line = 12;
  // s0 x 8 floats in and out, and 3 operations for each float.
  Extent rows{0, 0}, columns{8, -1};
  first.operands = {{"f32", {rows, columns}, false},
                    {"f32", {rows, columns}, true}};
  first.work = Work{{{24, {rows}}}, {{64, {rows}}}};
  Label second = first;
  second.name = "kernel1";
  second.stream = 1;
  second.work.reset();
  info->labels = {first, second};
  info->events = {{0, 1}};
  return info;
}

class RecorderFile : public ::testing::Test {
protected:
  std::string path = (std::filesystem::temp_directory_path() /
                      ("anabranch-trace-" + std::to_string(::getpid())))
                         .string();
  void TearDown() override { std::filesystem::remove(path); }
};

TEST_F(RecorderFile, HasWorkersStreamsAndEvents) {
  auto info = twoStreams();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(startTrace(path).ok());
    EXPECT_FALSE(startTrace(path).ok());
    {
      Call call(Recorder::active(), info, {4});
      ASSERT_NE(call.orNull(), nullptr);
      std::thread other([&] { OpenSlice slice(call.orNull(), 0, 3); });
      {
        OpenSlice slice(call.orNull(), 0, 1);
      }
      other.join();
      OpenSlice slice(call.orNull(), 1, 1);
    }
    ASSERT_TRUE(stopTrace().ok());
    EXPECT_FALSE(stopTrace().ok());
    nlohmann::json trace = read(path);
    std::map<std::string, int> slices, phases;
    for (const auto &event : trace["traceEvents"]) {
      ++phases[event["ph"]];
      if (event["ph"] != "X")
        continue;
      ++slices[event["cat"]];
      EXPECT_GE(event["dur"].get<double>(), 0);
      if (event["cat"] != "stream" || event["name"] != "kernel0")
        continue;
      const auto &args = event["args"];
      EXPECT_EQ(args["operators"], "linear, gelu");
      EXPECT_EQ(args["source"], "m.py:12");
      EXPECT_EQ(args["stream"], "main");
      EXPECT_EQ(args["shapes"], "f32[4, 8] -> f32[4, 8]");
      EXPECT_EQ(args["FLOP"], 96.0);
      EXPECT_EQ(args["bytes"], 256.0);
      EXPECT_EQ(args["tiles"], 4);
    }
    EXPECT_EQ(slices["call"], 1);
    EXPECT_EQ(slices["stream"], 2);
    EXPECT_EQ(slices["worker"], 3);
    EXPECT_EQ(phases["s"], 1);
    EXPECT_EQ(phases["f"], 1);
    EXPECT_EQ(trace["anabranch"]["programs"][0]["streams"][1]["priority"], 5);
  }
}

/// The trace shows launches on the workers that ran them. It shows the super
/// kernel on its stream, from the first launch's begin to the last one's end.
TEST_F(RecorderFile, ShowsSuperKernelsAndTheirLaunches) {
  auto info = std::make_shared<ProgramInfo>(*twoStreams());
  Label super;
  super.name = "layer";
  super.kind = "super";
  Label first = info->labels[0];
  first.super = 0;
  Label second = first;
  second.name = "kernel1";
  info->labels = {super, first, second};
  info->events.clear();
  ASSERT_TRUE(startTrace(path).ok());
  {
    Call call(Recorder::active(), info, {4});
    for (int label : {1, 2, 1, 2})
      OpenSlice slice(call.orNull(), label, 2);
  }
  ASSERT_TRUE(stopTrace().ok());
  std::map<std::string, int> slices;
  double begin = 1e18, end = 0;
  nlohmann::json trace = read(path), shown;
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "call")
      continue;
    ++slices[event["name"]];
    if (event["name"] == "layer") {
      EXPECT_EQ(event["cat"], "stream");
      EXPECT_EQ(event["args"]["kind"], "super");
      EXPECT_EQ(event["args"]["tiles"], 8);
      shown = event;
      continue;
    }
    EXPECT_EQ(event["cat"], "worker");
    EXPECT_EQ(event["args"]["super kernel"], "layer");
    EXPECT_EQ(event["args"]["part of"], 0);
    EXPECT_EQ(event["args"]["FLOP"], 48.0) << "half of the launch's";
    begin = std::min(begin, event["ts"].get<double>());
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(slices["layer"], 1);
  EXPECT_EQ(slices["kernel0"] + slices["kernel1"], 4);
  ASSERT_FALSE(shown.is_null());
  EXPECT_DOUBLE_EQ(shown["ts"].get<double>(), begin);
  EXPECT_NEAR(shown["ts"].get<double>() + shown["dur"].get<double>(), end,
              0.01);
}

TEST_F(RecorderFile, SharesWorkAmongPieces) {
  ASSERT_TRUE(startTrace(path).ok());
  {
    Call call(Recorder::active(), twoStreams(), {4});
    {
      OpenSlice slice(call.orNull(), 0, 1);
    }
    {
      OpenSlice slice(call.orNull(), 0, 3);
    }
  }
  ASSERT_TRUE(stopTrace().ok());
  double sum = 0;
  nlohmann::json trace = read(path);
  for (const auto &event : trace["traceEvents"])
    if (event.value("cat", "") == "worker")
      sum += event["args"]["FLOP"].get<double>();
  EXPECT_EQ(sum, 96.0);
}

TEST_F(RecorderFile, MayBeginAndEndWhileCallsRun) {
  auto info = twoStreams();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!done) {
        Call call(Recorder::active(), info, {4});
        OpenSlice first(call.orNull(), 0, 1);
        OpenSlice second(call.orNull(), 1, 1);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(startTrace(path).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(stopTrace().ok());
    EXPECT_TRUE(read(path).contains("anabranch"));
  }
  done = true;
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(RecorderFile, IsNotWrittenByAForkedChild) {
  ASSERT_TRUE(startTrace(path).ok());
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(Recorder::active() != nullptr || stopTrace().ok());
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(Recorder::active(), nullptr);
  EXPECT_TRUE(stopTrace().ok());
}

TEST(Recorder, SaysWhenTheFileCannotBeWritten) {
  EXPECT_EQ(startTrace("/nowhere/at/all.json").code(), StatusCode::IoError);
  EXPECT_EQ(Recorder::active(), nullptr);
  ASSERT_TRUE(startTrace("/dev/full").ok());
  EXPECT_EQ(stopTrace().code(), StatusCode::IoError);
}

TEST(Recorder, RecordsNothingWhenOff) {
  EXPECT_EQ(Recorder::active(), nullptr);
  Call call(Recorder::active(), twoStreams(), {4});
  EXPECT_EQ(call.orNull(), nullptr);
  OpenSlice slice(call.orNull(), 0);
}

struct Listener : SliceListener {
  void *begin(const char *name) override {
    names.push_back(name);
    ++open;
    return this;
  }
  void end(void *begun) override {
    EXPECT_EQ(begun, this);
    --open;
  }
  std::vector<std::string> names;
  int open = 0;
};

TEST(Recorder, TellsAListenerWithoutATrace) {
  auto info = std::make_shared<ProgramInfo>(*twoStreams());
  info->shown = "the call";
  info->labels[0].shown = "the slice";
  Listener listener;
  setSliceListener(&listener);
  {
    Call call(Recorder::active(), info, {4});
    OpenSlice slice(call.orNull(), 0);
    EXPECT_EQ(listener.open, 2);
  }
  setSliceListener(nullptr);
  EXPECT_EQ(Recorder::active(), nullptr);
  EXPECT_EQ(listener.open, 0);
  EXPECT_EQ(listener.names,
            (std::vector<std::string>{"the call", "the slice"}));
}

} // namespace
} // namespace anabranch::trace
