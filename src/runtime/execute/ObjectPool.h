//===- ObjectPool.h - what waits for the next call --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_OBJECTPOOL_H
#define ANABRANCH_RUNTIME_EXECUTE_OBJECTPOOL_H

#include <array>
#include <atomic>
#include <cstddef>

namespace anabranch::runtime {

/// A freelist: calls take objects and give them back. `bytes()` is the sum over
/// the objects in the pool. Any thread, without a lock.
template <typename T> class ObjectPool {
public:
  ObjectPool() = default;
  ~ObjectPool() { trim(); }
  ObjectPool(const ObjectPool &) = delete;
  ObjectPool &operator=(const ObjectPool &) = delete;

  /// The object at the address `wanted` if it is in the pool, else any object.
  /// Null if the pool is empty.
  T *take(const T *wanted = nullptr) {
    if (wanted)
      for (std::atomic<T *> &place : places)
        if (T *waiting = place.load(std::memory_order_relaxed);
            waiting == wanted &&
            place.compare_exchange_strong(waiting, nullptr,
                                          std::memory_order_acquire))
          return taken(waiting);
    for (std::atomic<T *> &place : places)
      if (place.load(std::memory_order_relaxed))
        if (T *waiting = place.exchange(nullptr, std::memory_order_acquire))
          return taken(waiting);
    return nullptr;
  }

  /// Puts the object into the pool, or deletes it if the pool is full.
  void give(T *object) {
    kept.fetch_add(object->bytes(), std::memory_order_relaxed);
    for (std::atomic<T *> &place : places) {
      T *none = nullptr;
      if (!place.load(std::memory_order_relaxed) &&
          place.compare_exchange_strong(none, object,
                                        std::memory_order_release))
        return;
    }
    kept.fetch_sub(object->bytes(), std::memory_order_relaxed);
    delete object;
  }

  void trim() {
    while (T *object = take())
      delete object;
  }

  size_t bytes() const { return kept.load(std::memory_order_relaxed); }

private:
  T *taken(T *object) {
    kept.fetch_sub(object->bytes(), std::memory_order_relaxed);
    return object;
  }

  static constexpr size_t limit = 8;
  std::array<std::atomic<T *>, limit> places{};
  std::atomic<size_t> kept{0};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_OBJECTPOOL_H
