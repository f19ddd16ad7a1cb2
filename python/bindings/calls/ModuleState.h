//===- ModuleState.h - what a call takes from its module --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A function that was read from the cache fetches parameters and compares what
// its trace took for constant at every call. Both lie in a few hundred dicts.
// CPython numbers every change of a dict or a class, so that a call compares
// one number for each of them and looks again only where something changed;
// lists, functions and closures, which are few, are looked at every time.

#ifndef ANABRANCH_BINDINGS_MODULESTATE_H
#define ANABRANCH_BINDINGS_MODULESTATE_H

#include <Python.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anabranch::python {

/// Releases a reference; for std::unique_ptr.
struct Unref {
  void operator()(PyObject *object) const { Py_XDECREF(object); }
};
using Ref = std::unique_ptr<PyObject, Unref>;

/// Where a value lies in an object.
enum class Within : uint8_t {
  Attributes, ///< the object's own, its `__dict__`
  Dict,       ///< the object is a dict
  Sequence,   ///< a list or a tuple
  Function,   ///< `__code__`, `__defaults__`, `__kwdefaults__`, `__closure__`
  Cell,       ///< what a closure refers to
  Class       ///< attributes of the object's type
};

/// Containers of a module and of its parts, found from the module that a call
/// gets. Nothing of the module is kept alive: a container is looked at only
/// after what holds it was seen to be as before. All needs the GIL.
class ModuleState {
public:
  /// What lies under `key` in container `parent`, seen as `within` says. Those
  /// without a parent are the module, or `root`, which is not found but known.
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
  /// What is compared: an item, the number of items, the keys, or an item's
  /// type.
  enum class Compared : uint8_t { Item, Length, Keys, Type };
  struct Constant {
    uint32_t container;
    Ref key;
    Compared compared;
    Ref value; ///< null: nothing is there
    std::string name;
  };

  void add(Container container);
  void add(Value value);
  void add(Constant constant);

  /// Finds the values and compares the constants. Otherwise the reason why what
  /// was compiled is for another module is set as an error of the type `stale`.
  bool follow(PyObject *module, PyObject *stale);

  /// Of the last `follow`, borrowed.
  PyObject *value(size_t number) const { return values[number].object; }
  size_t valueCount() const { return values.size(); }
  size_t containerCount() const { return containers.size(); }

  /// Shows the collector of garbage what is held.
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
