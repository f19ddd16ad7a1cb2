//===- Log.cpp - lines for the operator of the process --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Log.h"

#include "anabranch/Trace.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

namespace anabranch {

namespace {

/// UTC to the millisecond, in the format of Python's isoformat.
std::string timeNow() {
  using namespace std::chrono;
  auto sinceEpoch = system_clock::now().time_since_epoch();
  auto millis = duration_cast<milliseconds>(sinceEpoch).count();
  std::time_t seconds = millis / 1000;
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  char day[32], all[48];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(all, sizeof all, "%s.%03d+00:00", day, int(millis % 1000));
  return all;
}

} // namespace

std::string trace::warningLine(const std::string &program,
                               const std::string &text, bool asJson) {
  if (!asJson)
    return program + ": " + text;
  const nlohmann::ordered_json line = {{"time", timeNow()},
                                       {"level", "warning"},
                                       {"event", "warning"},
                                       {"kind", program},
                                       {"text", text}};
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

void warn(const std::string &program, const std::string &text) {
  const char *kind = std::getenv("ANABRANCH_LOG");
  bool asJson = kind && std::strcmp(kind, "json") == 0;
  std::string line = trace::warningLine(program, text, asJson) + "\n";
  std::fputs(line.c_str(), stderr);
}

} // namespace anabranch
