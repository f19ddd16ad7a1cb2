//===- SmallArray.h - scratch for one call, on the stack --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_SMALLARRAY_H
#define ANABRANCH_BINDINGS_SMALLARRAY_H

#include <cstddef>
#include <memory>
#include <type_traits>

namespace anabranch::python {

/// An array of `size` uninitialised elements: up to `Inline` in the object,
/// more on the heap.
template <typename T, size_t Inline> class SmallArray {
  static_assert(std::is_trivially_destructible_v<T>);

public:
  explicit SmallArray(size_t size) {
    if (size > Inline) {
      heap.reset(new Slot[size]);
      first = reinterpret_cast<T *>(heap.get());
    }
  }
  T &operator[](size_t i) { return first[i]; }
  T *data() { return first; }

private:
  struct alignas(T) Slot {
    std::byte bytes[sizeof(T)];
  };
  Slot local[Inline];
  std::unique_ptr<Slot[]> heap;
  T *first = reinterpret_cast<T *>(local);
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SMALLARRAY_H
