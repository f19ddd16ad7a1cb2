//===- NamedEvents.cpp - events that programs share by name ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/NamedEvents.h"

#include "process/Fork.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace anabranch::runtime {

namespace {

struct Registry {
  std::mutex mutex;
  std::condition_variable over;
  std::map<std::string, std::shared_ptr<bool>> latest; ///< call by tag
};

/// The child of a fork has none of the calls in flight. Never destroyed: calls
/// may end after main() does.
ForkLocal<Registry> &registries = *new ForkLocal<Registry>;

} // namespace

void NamedEvents::begin(const std::vector<std::string> &awaits,
                        const std::vector<std::string> &records) {
  Registry &registry = registries.get();
  std::unique_lock<std::mutex> lock(registry.mutex);
  std::vector<std::shared_ptr<bool>> earlier;
  for (const std::string &tag : awaits)
    if (auto found = registry.latest.find(tag); found != registry.latest.end())
      earlier.push_back(found->second);
  if (!records.empty())
    call = std::make_shared<bool>(false);
  for (const std::string &tag : records)
    registry.latest[tag] = call;
  for (const auto &other : earlier)
    registry.over.wait(lock, [&] { return *other; });
}

void NamedEvents::end() {
  Registry &registry = registries.get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  *call = true;
  registry.over.notify_all();
}

} // namespace anabranch::runtime
