//===- MachineLimits.cpp - measured once for each CPU, and stored ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/limits/MachineLimits.h"

#include "machine/limits/CacheFolder.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <unistd.h>

namespace anabranch::machine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Raise it when the figures measured change: files of another version are
/// measured again.
constexpr int version = 3;

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
  json file = {{"version", version}, {"cpu", limits.cpu}};
  for (auto [name, figure] : figures)
    file[name] = limits.*figure;
  return file;
}

/// False when the file is damaged, of another version or of another machine.
bool fromJson(const json &file, MachineLimits &limits) {
  if (!file.is_object() || file.value("version", json()) != version ||
      file.value("cpu", json()) != limits.cpu)
    return false;
  bool good = true;
  for (auto [name, figure] : figures) {
    json number = file.value(name, json());
    good = good && number.is_number() && number.get<double>() > 0;
    limits.*figure = good ? number.get<double>() : 0;
  }
  return good;
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
  MachineLimits limits;
  limits.cpu = cpuName();
  fs::path folder = cacheFolder();
  if (folder.empty())
    return measureMachineLimits();
  char key[17];
  std::snprintf(key, sizeof(key), "%016zx",
                std::hash<std::string>()(limits.cpu));
  fs::path path = folder / (std::string("machine-") + key + ".json");
  std::ifstream file(path);
  if (file &&
      fromJson(json::parse(file, nullptr, /*allow_exceptions=*/false), limits))
    return limits;
  std::string cpu = limits.cpu;
  limits = measureMachineLimits();
  limits.cpu = cpu;
  store(path, limits);
  return limits;
}

} // namespace

const MachineLimits &machineLimits() {
  static const MachineLimits limits = load();
  return limits;
}

std::string describeLimits() { return toJson(machineLimits()).dump(); }

} // namespace anabranch::machine
