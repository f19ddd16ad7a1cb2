//===- NamedEvents.h - events that programs share by name -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A call that waits for a tag begins after the end of the latest call that
// records the tag, if that call began earlier. Calls wait for earlier calls
// only, so they cannot wait for each other in a circle.

#ifndef ANABRANCH_RUNTIME_EXECUTE_NAMEDEVENTS_H
#define ANABRANCH_RUNTIME_EXECUTE_NAMEDEVENTS_H

#include <memory>
#include <string>
#include <vector>

namespace anabranch::runtime {

/// The constructor blocks until the events `awaits` are recorded. The
/// destructor records `records`. If both are empty, this costs nothing. Any
/// thread.
class NamedEvents {
public:
  NamedEvents(const std::vector<std::string> &awaits,
              const std::vector<std::string> &records) {
    if (!awaits.empty() || !records.empty())
      begin(awaits, records);
  }
  ~NamedEvents() {
    if (call)
      end();
  }
  NamedEvents(const NamedEvents &) = delete;
  NamedEvents &operator=(const NamedEvents &) = delete;

private:
  void begin(const std::vector<std::string> &awaits,
             const std::vector<std::string> &records);
  void end();

  std::shared_ptr<bool> call; ///< true once it is over
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_NAMEDEVENTS_H
