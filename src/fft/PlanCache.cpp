//===- PlanCache.cpp - plans that transforms have used lately -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/PlanCache.h"

#include "process/Fork.h"

#include <algorithm>
#include <mutex>

namespace anabranch::fft {

namespace {

bool isHalved(Kind kind, int64_t length) {
  return kind != Kind::Complex && length % 2 == 0;
}

template <typename T> using Shared = std::shared_ptr<const Tables<T>>;

/// The table used last comes first.
template <typename T> struct Cache {
  struct Entry {
    bool halved;
    int64_t length;
    Shared<T> tables;
  };
  std::mutex mutex;
  std::vector<Entry> entries;

  Shared<T> find(bool halved, int64_t length) {
    auto found = std::find_if(entries.begin(), entries.end(), [&](auto &entry) {
      return entry.halved == halved && entry.length == length;
    });
    if (found == entries.end())
      return nullptr;
    std::rotate(entries.begin(), found, found + 1);
    return entries.front().tables;
  }

  void add(bool halved, int64_t length, Shared<T> tables) {
    if (entries.size() == mostTables)
      entries.pop_back();
    entries.insert(entries.begin(), {halved, length, std::move(tables)});
  }
};

template <typename T> Cache<T> &cache() {
  static auto *made = new Cache<T>;
  return *made;
}

} // namespace

template <typename T>
Tables<T>::Tables(Kind kind, int64_t length)
    : plan(isHalved(kind, length) ? length / 2 : length) {
  if (isHalved(kind, length))
    halving = halvingTwiddles<T>(length);
}

/// Making tables takes long, so no lock is held meanwhile: two threads may make
/// the same ones.
template <typename T>
std::shared_ptr<const Tables<T>> tablesOf(Kind kind, int64_t length) {
  bool halved = isHalved(kind, length);
  {
    NoFork section;
    std::lock_guard<std::mutex> lock(cache<T>().mutex);
    if (Shared<T> known = cache<T>().find(halved, length))
      return known;
  }
  auto made = std::make_shared<const Tables<T>>(kind, length);
  NoFork section;
  std::lock_guard<std::mutex> lock(cache<T>().mutex);
  if (Shared<T> known = cache<T>().find(halved, length))
    return known;
  cache<T>().add(halved, length, made);
  return made;
}

template struct Tables<float>;
template struct Tables<double>;
template Shared<float> tablesOf(Kind, int64_t);
template Shared<double> tablesOf(Kind, int64_t);

} // namespace anabranch::fft
