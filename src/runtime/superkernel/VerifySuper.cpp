//===- VerifySuper.cpp - do the counters order all that conflicts? --------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// From the finished tables alone: what a counter stands for is what signals it,
// and what is done when an item starts is what its counters stand for, and all
// that was done when those items started.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperPlan.h"

#include <map>

namespace anabranch::runtime {

namespace {

using Bits = std::vector<uint64_t>;

class SuperChecker {
public:
  SuperChecker(const SuperShape &shape, const SuperPlan &plan)
      : shape(shape), plan(plan),
        items(static_cast<size_t>(shape.itemCount())) {}

  std::string run() {
    if (std::string wrong = checkTables(); !wrong.empty())
      return wrong;
    findDone();
    for (size_t later = 0; later < shape.members.size(); ++later) {
      int undone = firstUndone(shape.members[later]);
      for (size_t earlier = later; earlier-- > 0;) {
        const SuperShape::Member &e = shape.members[earlier];
        if (e.firstItem + e.itemCount <= undone)
          break;
        if (std::string wrong = compare(earlier, later); !wrong.empty())
          return wrong;
      }
    }
    return checkOrders();
  }

private:
  std::string checkTables();
  void findDone();
  bool isDone(int list, int item) const {
    return done[list][item / 64] >> item % 64 & 1;
  }
  int firstUndone(const SuperShape::Member &member) const;
  std::string compare(size_t earlier, size_t later) const;
  std::string checkOrders() const;
  bool isDoneBefore(const SuperShape::Member &earlier, int item) const;

  const SuperShape &shape;
  const SuperPlan &plan;
  const size_t items;
  std::vector<std::vector<int>> signalers; ///< by counter: items
  std::vector<int> lists;                  ///< by item: in `done`
  std::vector<Bits> done; ///< by list of waits: what is done for certain
};

/// Indices are in range, and a counter reaches its number only when all that
/// signal it are done.
std::string SuperChecker::checkTables() {
  if (plan.items.size() != items)
    return "its items are not those of its launches";
  signalers.resize(plan.counters.size());
  for (size_t i = 0; i < items; ++i) {
    const SuperItem &item = plan.items[i];
    if (item.firstWait < 0 || item.waits < 0 || item.firstSignal < 0 ||
        item.signals < 0 ||
        size_t(item.firstWait) + size_t(item.waits) > plan.waits.size() ||
        size_t(item.firstSignal) + size_t(item.signals) > plan.signals.size())
      return "an item waits for what is not there";
    for (int s = 0; s < item.signals; ++s) {
      int counter = plan.signals[item.firstSignal + s];
      if (counter < 0 || size_t(counter) >= signalers.size())
        return "an item signals what is not there";
      signalers[counter].push_back(static_cast<int>(i));
    }
  }
  for (size_t c = 0; c < signalers.size(); ++c)
    if (plan.counters[c] != static_cast<int>(signalers[c].size()))
      return "a counter counts wrongly";
  for (const SuperWait &wait : plan.waits)
    if (wait.counter < 0 || size_t(wait.counter) >= signalers.size() ||
        wait.signals != plan.counters[wait.counter])
      return "an item waits for what is not there";
  for (size_t i = 0; i < items; ++i)
    for (int w = 0; w < plan.items[i].waits; ++w)
      for (int signaler :
           signalers[plan.waits[plan.items[i].firstWait + w].counter])
        if (signaler >= static_cast<int>(i))
          return "an item waits for a later one";
  return {};
}

void SuperChecker::findDone() {
  std::map<std::pair<int, int>, int> known; // lists of waits
  std::vector<int> listOf(items, -1);
  for (size_t i = 0; i < items; ++i) {
    const SuperItem &item = plan.items[i];
    auto [entry, isNew] = known.try_emplace({item.firstWait, item.waits},
                                            static_cast<int>(done.size()));
    lists.push_back(entry->second);
    if (!isNew)
      continue;
    Bits bits((items + 63) / 64, 0);
    std::vector<bool> added(done.size(), false);
    for (int w = 0; w < item.waits; ++w)
      for (int before : signalers[plan.waits[item.firstWait + w].counter]) {
        bits[before / 64] |= uint64_t(1) << before % 64;
        if (added[lists[before]])
          continue;
        added[lists[before]] = true;
        for (size_t word = 0; word < bits.size(); ++word)
          bits[word] |= done[lists[before]][word];
      }
    done.push_back(std::move(bits));
  }
}

/// The first item that need not be done when some item of the launch starts.
int SuperChecker::firstUndone(const SuperShape::Member &member) const {
  int first = member.firstItem, last = -1;
  for (int i = 0; i < member.itemCount; ++i) {
    int list = lists[member.firstItem + i];
    if (list == last)
      continue;
    last = list;
    for (int item = 0; item < first; ++item)
      if (item % 64 == 0 && done[list][item / 64] == ~uint64_t(0))
        item += 63;
      else if (!isDone(list, item))
        first = item;
  }
  return first;
}

std::string SuperChecker::compare(size_t earlier, size_t later) const {
  const SuperShape::Member &e = shape.members[earlier];
  const SuperShape::Member &l = shape.members[later];
  for (const TouchGroup &a : e.groups)
    for (const TouchGroup &b : l.groups) {
      if (a.memory != b.memory || !(a.writes || b.writes) || a.end <= b.begin ||
          b.end <= a.begin)
        continue;
      for (int j = 0; j < l.itemCount; ++j)
        for (int i = 0; i < e.itemCount; ++i) {
          if (isDone(lists[l.firstItem + j], e.firstItem + i))
            continue;
          for (int y = b.first[j]; y < b.first[j + 1]; ++y)
            for (int x = a.first[i]; x < a.first[i + 1]; ++x)
              if (meets(a.reaches[x], b.reaches[y]))
                return "item " + std::to_string(i) + " of launch " +
                       std::to_string(earlier) + " and item " +
                       std::to_string(j) + " of launch " +
                       std::to_string(later) +
                       " use the same memory and nothing orders them";
        }
    }
  return {};
}

/// Whether all items of the launch are done when the item starts.
bool SuperChecker::isDoneBefore(const SuperShape::Member &earlier,
                                int item) const {
  for (int i = 0; i < earlier.itemCount; ++i)
    if (!isDone(lists[item], earlier.firstItem + i))
      return false;
  return true;
}

std::string SuperChecker::checkOrders() const {
  for (const SuperShape::Order &order : shape.orders)
    for (int later : order.after)
      for (int j = 0; j < shape.members[later].itemCount; ++j)
        for (int earlier : order.before)
          if (!isDoneBefore(shape.members[earlier],
                            shape.members[later].firstItem + j))
            return "item " + std::to_string(j) + " of launch " +
                   std::to_string(later) + " does not wait for launch " +
                   std::to_string(earlier) + ", as the program asks";
  return {};
}

} // namespace

std::string verifySuper(const SuperShape &shape, const SuperPlan &plan) {
  return SuperChecker(shape, plan).run();
}

} // namespace anabranch::runtime
