//===- SuperWaits.cpp - what each item of a super kernel waits for --------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Launches are taken in order; each is compared with those before it, the
// nearest first, since what it waits for already implies most that is older:
// the closure of an item, the set of items that are done when it starts, is
// kept as a bit for each item, and shared by items that wait for the same.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperPlan.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace anabranch::runtime {

namespace {

using Bits = std::vector<uint64_t>;
using Member = SuperShape::Member;

/// An item that waits for more counters of one launch than this waits for all
/// of it.
constexpr size_t fewCounters = 4;
/// An item adds to no more counters of need sets than this.
constexpr int fewSignals = 3;

bool has(const Bits &bits, int item) {
  return bits[item / 64] >> item % 64 & 1;
}
void put(Bits &bits, int item) { bits[item / 64] |= uint64_t(1) << item % 64; }
void put(Bits &bits, const Bits &other) {
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] |= other[i];
}

/// Items of one launch that some later item needs: ranges, [first, last).
struct NeedSet {
  int member;
  std::vector<std::pair<int, int>> ranges; ///< of items, numbered from 0
  Bits closure;                            ///< the items, and all before them
  bool used = false;
};

class WaitFinder {
public:
  WaitFinder(const SuperShape &shape, SuperPlan &plan)
      : shape(shape), plan(plan), words((shape.itemCount() + 63) / 64),
        closureOf(shape.itemCount(), 0), needs(shape.itemCount()),
        setsOf(shape.members.size()), signalsOf(shape.itemCount()),
        ordersOf(shape.members.size()) {
    closures.push_back(Bits(words, 0));
    for (const SuperShape::Order &order : shape.orders)
      for (int member : order.after)
        ordersOf[member].push_back(&order);
  }

  void run() {
    for (size_t m = 0; m < shape.members.size(); ++m)
      findNeeds(static_cast<int>(m));
    std::vector<std::vector<SuperWait>> waitsOf(sets.size());
    for (size_t m = 0; m < shape.members.size(); ++m)
      makeCounters(static_cast<int>(m), waitsOf);
    writeWaits(waitsOf);
  }

private:
  using Pair = std::pair<const TouchGroup *, const TouchGroup *>;

  void findNeeds(int member);
  std::vector<Pair> conflicts(const Member &later, const Member &earlier) const;
  bool compare(int member, int earlier, const std::vector<Pair> &pairs,
               bool whole);
  bool isLikeLast(const std::vector<Pair> &pairs, int item) const;
  void mark(const TouchGroup &group, const Reach &reach);
  int intern(int member);
  int extend(int closure, int set);
  bool contains(int closure, const NeedSet &set) const;
  int firstUndone(const Member &member) const;

  void makeCounters(int member, std::vector<std::vector<SuperWait>> &waitsOf);
  /// One that several items signal gets a line of its own.
  int addCounter(bool isShared) {
    auto alignEnd = [&] {
      plan.counters.resize((plan.counters.size() + countersOfLine - 1) /
                           countersOfLine * countersOfLine);
    };
    if (isShared)
      alignEnd();
    auto counter = static_cast<int>(plan.counters.size());
    plan.counters.push_back(0);
    if (isShared)
      alignEnd();
    return counter;
  }
  void signal(int item, int counter) {
    signalsOf[item].push_back(counter);
    ++plan.counters[counter];
  }
  void writeWaits(const std::vector<std::vector<SuperWait>> &waitsOf);

  const SuperShape &shape;
  SuperPlan &plan;
  const size_t words;
  std::vector<Bits> closures;
  std::vector<int> closureOf;          ///< by item
  std::vector<std::vector<int>> needs; ///< by item: sets
  std::vector<NeedSet> sets;
  std::vector<std::map<std::vector<std::pair<int, int>>, int>> setsOf;
  std::unordered_map<uint64_t, int> extended; ///< closure and set -> closure
  std::vector<char> marked;                   ///< items of the earlier launch
  std::vector<std::vector<int>> signalsOf;    ///< by item
  /// By member: those that it is after.
  std::vector<std::vector<const SuperShape::Order *>> ordersOf;
};

std::vector<WaitFinder::Pair>
WaitFinder::conflicts(const Member &later, const Member &earlier) const {
  std::vector<Pair> pairs;
  for (const TouchGroup &a : later.groups)
    for (const TouchGroup &b : earlier.groups)
      if (a.memory == b.memory && (a.writes || b.writes) && a.begin < b.end &&
          b.begin < a.end)
        pairs.push_back({&a, &b});
  return pairs;
}

/// The item touches what the one before it does.
bool WaitFinder::isLikeLast(const std::vector<Pair> &pairs, int item) const {
  if (item == 0)
    return false;
  for (auto [later, earlier] : pairs) {
    const Reach *reaches = later->reaches.data();
    int before = later->first[item - 1], here = later->first[item],
        end = later->first[item + 1];
    if (!std::equal(reaches + before, reaches + here, reaches + here,
                    reaches + end))
      return false;
  }
  return true;
}

/// Marks the items of the earlier launch that share a byte with the reach.
void WaitFinder::mark(const TouchGroup &group, const Reach &reach) {
  size_t from = 0;
  if (group.ordered)
    from = std::partition_point(
               group.reaches.begin(), group.reaches.end(),
               [&](const Reach &r) { return r.end() <= reach.begin; }) -
           group.reaches.begin();
  auto owner = std::upper_bound(group.first.begin(), group.first.end(),
                                static_cast<int>(from)) -
               group.first.begin() - 1;
  for (; from < group.reaches.size(); ++from) {
    const Reach &other = group.reaches[from];
    if (group.ordered && other.begin >= reach.end())
      return;
    while (group.first[owner + 1] <= static_cast<int>(from))
      ++owner;
    if (!marked[owner] && meets(other, reach))
      marked[owner] = 1;
  }
}

/// The number of the set of marked items; -1 for none.
int WaitFinder::intern(int member) {
  std::vector<std::pair<int, int>> ranges;
  for (size_t i = 0; i < marked.size(); ++i)
    if (marked[i]) {
      auto item = static_cast<int>(i);
      if (!ranges.empty() && ranges.back().second == item)
        ++ranges.back().second;
      else
        ranges.push_back({item, item + 1});
    }
  if (ranges.empty())
    return -1;
  auto [known, isNew] =
      setsOf[member].try_emplace(ranges, static_cast<int>(sets.size()));
  if (!isNew)
    return known->second;
  NeedSet set{member, ranges, Bits(words, 0)};
  int last = -1;
  for (auto [first, end] : ranges)
    for (int item = first; item < end; ++item) {
      int number = shape.members[member].firstItem + item;
      put(set.closure, number);
      if (closureOf[number] != last)
        put(set.closure, closures[closureOf[number]]);
      last = closureOf[number];
    }
  sets.push_back(std::move(set));
  return known->second;
}

bool WaitFinder::contains(int closure, const NeedSet &set) const {
  int base = shape.members[set.member].firstItem;
  for (auto [first, end] : set.ranges)
    for (int item = first; item < end; ++item)
      if (!has(closures[closure], base + item))
        return false;
  return true;
}

/// The closure with the set and all before it; the same one if it has it.
int WaitFinder::extend(int closure, int set) {
  uint64_t key = uint64_t(closure) << 32 | static_cast<uint32_t>(set);
  auto [known, isNew] = extended.try_emplace(key, closure);
  if (isNew && !contains(closure, sets[set])) {
    known->second = static_cast<int>(closures.size());
    closures.push_back(closures[closure]);
    put(closures.back(), sets[set].closure);
  }
  return known->second;
}

/// Compares all items of two launches; false if nothing new was found. With
/// `whole` all items of the later one need all of the earlier.
bool WaitFinder::compare(int member, int earlier,
                         const std::vector<Pair> &pairs, bool whole) {
  const Member &m = shape.members[member];
  marked.assign(shape.members[earlier].itemCount, whole);
  bool found = false;
  int set = whole ? intern(earlier) : -1;
  for (int item = 0; item < m.itemCount; ++item) {
    if (!whole && !isLikeLast(pairs, item)) {
      std::fill(marked.begin(), marked.end(), 0);
      for (auto [mine, other] : pairs)
        for (int r = mine->first[item]; r < mine->first[item + 1]; ++r)
          mark(*other, mine->reaches[r]);
      set = intern(earlier);
    }
    if (set < 0)
      continue;
    int number = m.firstItem + item;
    int closure = extend(closureOf[number], set);
    if (closure == closureOf[number])
      continue;
    closureOf[number] = closure;
    needs[number].push_back(set);
    sets[set].used = true;
    found = true;
  }
  return found;
}

/// The first item of all that may run when some item of the launch starts.
int WaitFinder::firstUndone(const Member &member) const {
  int first = member.firstItem, seen = -1;
  for (int i = 0; i < member.itemCount; ++i) {
    int closure = closureOf[member.firstItem + i];
    if (closure == seen)
      continue;
    seen = closure;
    int word = 0;
    while (word * 64 < first && closures[closure][word] == ~uint64_t(0))
      ++word;
    if (word * 64 < first)
      first = std::min(first,
                       word * 64 + __builtin_ctzll(~closures[closure][word]));
  }
  return first;
}

void WaitFinder::findNeeds(int member) {
  const Member &m = shape.members[member];
  extended.clear();
  std::vector<bool> asked(shape.members.size(), false);
  for (const SuperShape::Order *order : ordersOf[member])
    for (int before : order->before)
      asked[before] = true;
  int undone = 0;
  for (int earlier = member - 1; earlier >= 0; --earlier) {
    const Member &e = shape.members[earlier];
    if (e.firstItem + e.itemCount <= undone)
      return;
    std::vector<Pair> pairs = conflicts(m, e);
    if ((asked[earlier] || !pairs.empty()) &&
        compare(member, earlier, pairs, asked[earlier]))
      undone = firstUndone(m);
  }
}

/// Counters of what later items need of a launch: one for each part that no
/// need set divides, or one for each set, whichever is less to count and read.
void WaitFinder::makeCounters(int member,
                              std::vector<std::vector<SuperWait>> &waitsOf) {
  const Member &m = shape.members[member];
  std::vector<int> used;
  for (const auto &entry : setsOf[member])
    if (sets[entry.second].used)
      used.push_back(entry.second);
  // Which sets an item is in; items in the same ones are one part.
  std::vector<std::vector<int>> in(m.itemCount);
  int mostIn = 0;
  for (int set : used)
    for (auto [first, end] : sets[set].ranges)
      for (int item = first; item < end; ++item) {
        in[item].push_back(set);
        mostIn = std::max(mostIn, static_cast<int>(in[item].size()));
      }
  std::map<std::vector<int>, int> parts, sizes;
  std::map<int, std::vector<int>> partsOf; // of a set
  for (int item = 0; item < m.itemCount; ++item)
    if (!in[item].empty() && ++sizes[in[item]] == 1)
      for (int set : in[item])
        partsOf[set].push_back(item); // its first item stands for the part
  size_t mostParts = 0;
  for (const auto &entry : partsOf)
    mostParts = std::max(mostParts, entry.second.size());

  if (mostParts > fewCounters && mostIn <= fewSignals) {
    for (int set : used) {
      int counter = addCounter(/*isShared=*/true);
      for (auto [first, end] : sets[set].ranges)
        for (int item = first; item < end; ++item)
          signal(m.firstItem + item, counter);
      waitsOf[set] = {{counter, 0}};
    }
    return;
  }
  for (int item = 0; item < m.itemCount; ++item)
    if (!in[item].empty()) {
      auto [part, isNew] = parts.try_emplace(in[item], 0);
      if (isNew)
        part->second = addCounter(/*isShared=*/sizes[in[item]] > 1);
      signal(m.firstItem + item, part->second);
    }
  int all = -1;
  for (int set : used) {
    if (partsOf[set].size() <= fewCounters) {
      for (int item : partsOf[set])
        waitsOf[set].push_back({parts[in[item]], 0});
      continue;
    }
    if (all < 0) {
      all = addCounter(/*isShared=*/true);
      for (int item = 0; item < m.itemCount; ++item)
        signal(m.firstItem + item, all);
    }
    waitsOf[set] = {{all, 0}};
  }
}

void WaitFinder::writeWaits(
    const std::vector<std::vector<SuperWait>> &waitsOf) {
  for (size_t i = 0; i < plan.items.size(); ++i) {
    SuperItem &item = plan.items[i];
    item.firstSignal = static_cast<int>(plan.signals.size());
    item.signals = static_cast<int>(signalsOf[i].size());
    plan.signals.insert(plan.signals.end(), signalsOf[i].begin(),
                        signalsOf[i].end());
    // Neighbours that need the same share their list.
    if (i > 0 && needs[i] == needs[i - 1]) {
      item.firstWait = plan.items[i - 1].firstWait;
      item.waits = plan.items[i - 1].waits;
      continue;
    }
    item.firstWait = static_cast<int>(plan.waits.size());
    for (int set : needs[i])
      for (SuperWait wait : waitsOf[set])
        plan.waits.push_back({wait.counter, plan.counters[wait.counter]});
    item.waits = static_cast<int>(plan.waits.size()) - item.firstWait;
  }
}

} // namespace

void TouchGroup::add(const Reach &reach) {
  if (reaches.empty()) {
    begin = reach.begin;
    end = reach.end();
  } else {
    ordered = ordered && reach.begin >= reaches.back().begin &&
              reach.end() >= reaches.back().end();
    begin = std::min(begin, reach.begin);
    end = std::max(end, reach.end());
  }
  reaches.push_back(reach);
}

void findWaits(const SuperShape &shape, SuperPlan &plan) {
  WaitFinder(shape, plan).run();
}

} // namespace anabranch::runtime
