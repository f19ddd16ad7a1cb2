//===- MachineLimits.cpp - measured once for each CPU, and stored ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/limits/MachineLimits.h"

#include "machine/limits/CacheFolder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sched.h>
#include <unistd.h>

namespace anabranch::machine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Raise it when the figures measured change: files of another version are
/// measured again.
constexpr int version = 4;

/// After so many disturbed measurements the best figures stay.
constexpr int mostDisturbed = 3;

std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, model = "unknown CPU";
  while (std::getline(file, line))
    if (line.rfind("model name", 0) == 0 && line.find(": ") != line.npos) {
      model = line.substr(line.find(": ") + 2);
      break;
    }
  cpu_set_t set;
  int count = ::sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
  return model + ", " + std::to_string(count) + (count == 1 ? " CPU" : " CPUs");
}

/// The figures of the file, by name.
constexpr std::pair<const char *, double MachineLimits::*> figures[] = {
    {"gflops", &MachineLimits::gflops},
    {"gflops_all", &MachineLimits::gflopsAll},
    {"cache_gbs", &MachineLimits::cacheGBs},
    {"memory_gbs", &MachineLimits::memoryGBs},
    {"memory_gbs_all", &MachineLimits::memoryGBsAll},
    {"wake_us", &MachineLimits::wakeMicroseconds}};

json toJson(const MachineLimits &limits) {
  json file = {{"version", version},
               {"cpu", limits.cpu},
               {"disturbed", limits.disturbed}};
  for (auto [name, figure] : figures)
    file[name] = limits.*figure;
  return file;
}

/// Nothing when the file is damaged, of another version or of another machine.
std::optional<MachineLimits> fromJson(const json &file,
                                      const std::string &cpu) {
  if (!file.is_object() || file.value("version", json()) != version ||
      file.value("cpu", json()) != cpu)
    return std::nullopt;
  MachineLimits limits;
  limits.cpu = cpu;
  json disturbed = file.value("disturbed", json());
  if (!disturbed.is_number_integer())
    return std::nullopt;
  limits.disturbed = disturbed.get<int>();
  for (auto [name, figure] : figures) {
    json number = file.value(name, json());
    // One CPU wakes no other one: its figure is zero.
    if (!number.is_number() || number.get<double>() < 0)
      return std::nullopt;
    limits.*figure = number.get<double>();
  }
  return limits;
}

/// Other programs only slow a measurement down, so the better figure is closer
/// to the limit.
MachineLimits better(MachineLimits limits, const MachineLimits &other) {
  double wake = std::min(limits.wakeMicroseconds, other.wakeMicroseconds);
  for (auto [name, figure] : figures)
    limits.*figure = std::max(limits.*figure, other.*figure);
  limits.wakeMicroseconds = wake;
  return limits;
}

/// Writes a file beside the final one and renames it, since several processes
/// may write at once. If the folder cannot be written, the next process
/// measures again.
void store(const fs::path &path, const MachineLimits &limits) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path beside = path;
  beside += "." + std::to_string(::getpid());
  std::ofstream(beside) << toJson(limits).dump(2) << "\n";
  fs::rename(beside, path, error);
  if (error)
    fs::remove(beside, error);
}

MachineLimits load() {
  std::string cpu = cpuName();
  fs::path folder = cacheFolder();
  if (folder.empty())
    return keptLimits("", cpu, measureMachineLimits);
  char key[17];
  std::snprintf(key, sizeof(key), "%016zx", std::hash<std::string>()(cpu));
  fs::path path = folder / (std::string("machine-") + key + ".json");
  return keptLimits(path, cpu, measureMachineLimits);
}

} // namespace

MachineLimits keptLimits(const std::string &path, const std::string &cpu,
                         const std::function<MachineLimits()> &measure) {
  std::ifstream file(path);
  std::optional<MachineLimits> kept;
  if (file)
    kept =
        fromJson(json::parse(file, nullptr, /*allow_exceptions=*/false), cpu);
  if (kept && (!kept->disturbed || kept->disturbed >= mostDisturbed))
    return *kept;
  MachineLimits limits = measure();
  limits.cpu = cpu;
  if (kept) {
    limits = better(limits, *kept);
    limits.disturbed = limits.disturbed ? kept->disturbed + 1 : 0;
  }
  if (!path.empty())
    store(path, limits);
  return limits;
}

const MachineLimits &machineLimits() {
  static const MachineLimits limits = load();
  return limits;
}

std::string describeLimits() { return toJson(machineLimits()).dump(); }

} // namespace anabranch::machine
