//===- ModuleState.h - what a call takes from its module --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// At every call, a function that was read from the cache fetches parameters and
// compares the values that its trace took for constant. A few hundred dicts
// hold both. CPython numbers every change of a dict or a class. A call compares
// one number for each of them, and looks inside again only if it changed. The
// few lists, functions and closures have no number: each call looks inside.

#ifndef ANABRANCH_BINDINGS_MODULESTATE_H
#define ANABRANCH_BINDINGS_MODULESTATE_H

#include "support/Ref.h"

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch::python {

/// How an object holds a value.
enum class Within : uint8_t {
  Attributes, ///< the object's own, its `__dict__`
  Dict,       ///< the object is a dict
  Sequence,   ///< a list or a tuple
  Function,   ///< `__code__`, `__defaults__`, `__kwdefaults__`, `__closure__`
  Cell,       ///< what a closure refers to
  Class       ///< attributes of the object's type
};

/// Containers of a module and of its parts, found from the module that a call
/// gets. It keeps nothing of the module alive: `follow` looks at a container
/// only after it has found the holder unchanged. All needs the GIL.
class ModuleState {
public:
  /// The object under `key` in container `parent`; `within` says which of its
  /// values the container has. Without a parent the object is the module, or
  /// `root`, which every call shares.
  struct Container {
    int32_t parent;
    Ref key;
    Within within;
    Ref root;
    PyObject *holder = nullptr;
    PyObject *found = nullptr;
    uint64_t version = 0;
    std::vector<uint32_t> children, values, constants;
  };
  struct Value {
    uint32_t container;
    Ref key;
    PyObject *object = nullptr; ///< the container's
  };
  /// The property that a call compares: an item, the number of items, the
  /// keys, or an item's type.
  enum class Compared : uint8_t { Item, Length, Keys, Type };
  struct Constant {
    uint32_t container;
    Ref key;
    Compared compared;
    Ref value; ///< null: the container has no such item
    std::string name;
  };

  void add(Container container);
  void add(Value value);
  void add(Constant constant);

  /// Finds the values and compares the constants. False: one is gone or is not
  /// what the trace saw, and an error of the type `stale` says which.
  bool follow(PyObject *module, PyObject *stale);

  /// The value that the last `follow` found, borrowed.
  PyObject *value(size_t number) const { return values[number].object; }
  size_t valueCount() const { return values.size(); }
  size_t containerCount() const { return containers.size(); }

  /// Shows the garbage collector the objects that this table owns.
  int traverse(visitproc visit, void *argument) const;

private:
  bool lookAgain(Container &container, PyObject *stale);
  bool compare(const Container &container, const Constant &constant,
               PyObject *stale) const;
  std::vector<Container> containers;
  std::vector<Value> values;
  std::vector<Constant> constants;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_MODULESTATE_H
