//===- SuperPlan.h - the tiles of a super kernel ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Made at load, once for each super kernel: items of work, and what an item
// waits for. Read by any number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SUPERPLAN_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SUPERPLAN_H

#include "runtime/superkernel/SuperQueues.h"
#include "runtime/superkernel/TileReach.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace anabranch::runtime {

/// What the items of one launch touch through one operand.
struct TouchGroup {
  int memory = 0; ///< the same for operands that can share bytes
  bool writes = false;
  int64_t begin = 0, end = 0; ///< of all entries together
  bool ordered = true;        ///< neither begins nor ends ever go down
  std::vector<Reach> reaches; ///< of the items, in turn
  std::vector<int> first;     ///< by item, and the number of all

  void add(const Reach &reach);
};

/// The launches of a super kernel, in an order that one worker may run. Items
/// are numbered from one launch to the next.
struct SuperShape {
  struct Member {
    int firstItem = 0, itemCount = 0;
    std::vector<TouchGroup> groups;
  };
  /// Members `before` end before one of `after` begins: all of these are later.
  struct Order {
    std::vector<int> before, after;
  };
  std::vector<Member> members;
  std::vector<Order> orders;

  int itemCount() const {
    return members.empty()
               ? 0
               : members.back().firstItem + members.back().itemCount;
  }
};

/// Some tiles of one launch, run by one worker at a time.
struct SuperItem {
  int launch = 0, label = 0;
  int64_t tile = 0, tiles = 0; ///< the first, and how many
  int firstWait = 0, waits = 0;
  int firstSignal = 0, signals = 0;
};

/// Counters that share a cache line.
constexpr int countersOfLine = 16;

/// All items that signal the counter must be done.
struct SuperWait {
  int counter, signals;
  bool operator==(const SuperWait &o) const { return counter == o.counter; }
};

/// Constant bytes that an item reads: worth fetching before it can start.
struct SuperFetch {
  int operand = -1; ///< in Commands::operands
  Reach reach;      ///< from the operand's pointer
};

struct SuperPlan {
  std::vector<SuperItem> items;
  std::vector<SuperWait> waits;
  std::vector<int> signals; ///< counters that an item adds one to when done
  /// How many items signal each; none those that only keep others apart.
  std::vector<int> counters;
  std::vector<SuperFetch> fetches; ///< by item
  std::vector<double> times;       ///< by item, estimated: nanoseconds
  std::vector<double> bytes;       ///< by item: what it writes
  std::vector<double> reads;       ///< by item: what others may have written
  double serialTime = 0;           ///< of all items, on one worker

  /// Made by the first call with so many workers.
  const SuperQueues &queuesFor(int workers) const;

  ~SuperPlan();

private:
  static constexpr int most = 64; ///< more workers share these queues
  mutable std::array<std::atomic<const SuperQueues *>, most> queues{};
  mutable std::mutex making;
};

/// Fills in `waits`, `signals` and `counters`, and those of the items.
void findWaits(const SuperShape &shape, SuperPlan &plan);

/// Whether the counters alone order every two items that share a byte which one
/// of them writes, and those that the shape orders. Shares nothing with
/// `findWaits` but the shape. Empty if so.
std::string verifySuper(const SuperShape &shape, const SuperPlan &plan);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SUPERPLAN_H
