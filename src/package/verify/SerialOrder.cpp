//===- SerialOrder.cpp - how one worker runs all streams ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/SerialOrder.h"

#include <algorithm>
#include <numeric>

namespace anabranch::package {

namespace {

/// Simulates one worker: of the streams that need not wait, the one of highest
/// priority goes on until it has to wait.
class Player {
public:
  Player(const Streams &streams, int events)
      : streams(streams), recorded(static_cast<size_t>(events), false),
        next(streams.size(), 0), byPriority(streams.size()) {
    std::iota(byPriority.begin(), byPriority.end(), 0);
    std::sort(byPriority.begin(), byPriority.end(), [&](int a, int b) {
      int pa = streams[a]->priority, pb = streams[b]->priority;
      return pa != pb ? pa > pb : a < b;
    });
  }

  std::vector<CommandRef> play() {
    while (std::any_of(byPriority.begin(), byPriority.end(),
                       [&](int stream) { return advance(stream); })) {
    }
    return std::move(order);
  }

private:
  bool advance(int stream) {
    size_t before = order.size();
    const auto &commands = streams[stream]->commands;
    for (int &at = next[stream]; at < static_cast<int>(commands.size()); ++at) {
      const ActionUnion &action = commands[at]->action;
      if (const WaitT *wait = action.AsWait(); wait && !recorded[wait->event])
        break;
      if (const RecordT *record = action.AsRecord())
        recorded[record->event] = true;
      order.push_back({stream, at});
    }
    return order.size() > before;
  }

  const Streams &streams;
  std::vector<bool> recorded;
  std::vector<int> next;
  std::vector<int> byPriority;
  std::vector<CommandRef> order;
};

} // namespace

Expected<std::vector<CommandRef>> serialOrder(const Streams &streams,
                                              int events) {
  std::vector<CommandRef> order = Player(streams, events).play();
  size_t all = 0;
  for (const auto &stream : streams)
    all += stream->commands.size();
  if (order.size() != all)
    return Status(
        StatusCode::BadPackage,
        "program is refused: its streams wait for each other forever");
  return order;
}

} // namespace anabranch::package
