//===- TensorState.h - whether a tensor was changed -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TENSORSTATE_H
#define ANABRANCH_BINDINGS_TENSORSTATE_H

#include <Python.h>
#include <cstddef>
#include <cstdint>

namespace anabranch::python {

/// The facts of a tensor that change when PyTorch writes or replaces its
/// contents. If two states of a living storage are equal, PyTorch has not
/// written to it in between.
struct TensorState {
  const void *storage = nullptr; ///< PyTorch's object, not the memory
  const void *data = nullptr;    ///< null: no plain memory
  int64_t offset = 0;            ///< elements from the storage's begin
  int64_t version = 0;           ///< in-place writes; -1: not counted

  bool operator==(const TensorState &other) const {
    return storage == other.storage && data == other.data &&
           offset == other.offset && version == other.version;
  }
};

/// Reads states. The first use checks the layout of PyTorch's objects. If it is
/// as expected, a state costs a few loads, else several of Python's attributes.
/// All functions need the GIL.
class TensorStates {
public:
  static const TensorStates &get();

  /// `counts` says whether the tensor has a version; inference tensors have
  /// none. False with a Python error set.
  bool read(PyObject *tensor, bool counts, TensorState &out) const;

  /// Raises the version of a tensor that a program has written.
  void wrote(PyObject *tensor) const;

private:
  TensorStates();
  bool readAttributes(PyObject *tensor, bool counts, TensorState &out) const;
  bool findOffsets(PyObject *first, PyObject *second);
  bool agrees(PyObject *tensor) const;

  /// A reference to the counter that a tensor shares with its views.
  using Counter = const void *(*)(const void *tensor);
  using Bump = void (*)(const void *tensor);
  Counter counter = nullptr;
  Bump bump = nullptr;
  size_t tensorAt = 0;  ///< of the C++ tensor in Python's
  size_t storageAt = 0; ///< in the C++ tensor
  size_t offsetAt = 0;  ///< in the C++ tensor
  size_t counterAt = 0; ///< in the C++ tensor
  size_t dataAt = 0;    ///< of the memory's address in the storage
  bool isQuick = false;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TENSORSTATE_H
