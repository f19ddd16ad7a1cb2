//===- ChromeTrace.cpp - slices as Chrome's JSON --------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "trace/ChromeTrace.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace anabranch::trace {

using nlohmann::json;

namespace {

json eventOf(const Slice &slice, int thread, int64_t origin) {
  json args = {{"stream", slice.stream}};
  const Label &label = (*slice.labels)[static_cast<size_t>(slice.label)];
  if (!label.operators.empty())
    args["operators"] = label.operators;
  if (!label.file.empty())
    args["source"] = label.file + ":" + std::to_string(label.line);
  if (!label.function.empty())
    args["function"] = label.function;
  if (slice.tiles) {
    args["first tile"] = slice.firstTile;
    args["tiles"] = slice.tiles;
  }
  return {{"ph", "X"},
          {"pid", ::getpid()},
          {"tid", thread},
          {"ts", static_cast<double>(slice.begin - origin) / 1e3},
          {"dur", static_cast<double>(slice.end - slice.begin) / 1e3},
          {"name", label.name},
          {"args", args}};
}

json nameOf(const Recorder::Thread &thread) {
  return {{"ph", "M"},
          {"pid", ::getpid()},
          {"tid", thread.thread},
          {"name", "thread_name"},
          {"args", {{"name", thread.name}}}};
}

} // namespace

std::string toChromeJson(const std::vector<Recorder::Thread> &threads) {
  int64_t origin = INT64_MAX;
  for (const Recorder::Thread &thread : threads)
    for (const Slice &slice : thread.slices)
      origin = std::min(origin, slice.begin);
  json events = json::array();
  for (const Recorder::Thread &thread : threads) {
    events.push_back(nameOf(thread));
    for (const Slice &slice : thread.slices)
      events.push_back(eventOf(slice, thread.thread, origin));
  }
  return json({{"displayTimeUnit", "ns"}, {"traceEvents", events}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Status writeChromeTrace(const std::string &path,
                        const std::vector<Recorder::Thread> &threads) {
  std::string text = toChromeJson(threads);
  std::FILE *file = std::fopen(path.c_str(), "we");
  bool ok =
      file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  ok = file && std::fclose(file) == 0 && ok;
  return ok ? Status()
            : Status(StatusCode::IoError, "cannot write the trace " + path);
}

} // namespace anabranch::trace
