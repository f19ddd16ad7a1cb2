//===- ModuleState.h - what a call takes from its module --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A function that was read from the cache fetches parameters and compares what
// its trace took for constant at every call. Both lie in a few hundred dicts.
// CPython numbers every change of a dict, so that a call compares one number
// for each of them and looks again only where something changed.
//
//===----------------------------------------------------------------------===//

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

/// Dicts of a module and of its parts, found from the module that a call gets.
/// Nothing of the module is kept alive: a dict is looked at only after what
/// holds it was seen to be as before. All needs the GIL.
class ModuleState {
public:
  /// The dict under `key` in dict `parent`, or the attributes of the object
  /// there. The first dict is the module's attributes; `parent` is -1. `root`,
  /// if any, is a dict that is not found but known.
  struct Dict {
    int32_t parent;
    Ref key;
    bool attributes;
    Ref root;
    PyObject *holder = nullptr;
    PyObject *dict = nullptr;
    uint64_t version = 0;
    std::vector<uint32_t> children, values, constants;
  };
  struct Value {
    uint32_t dict;
    Ref key;
    PyObject *object = nullptr; ///< the dict's
  };
  struct Constant {
    uint32_t dict;
    Ref key;
    Ref value; ///< null: nothing is there
    std::string name;
  };

  void add(Dict dict);
  void add(Value value);
  void add(Constant constant);

  /// Finds the values and compares the constants. Otherwise the reason why what
  /// was compiled is for another module is set as an error of the type `stale`.
  bool follow(PyObject *module, PyObject *stale);

  /// Of the last `follow`, borrowed.
  PyObject *value(size_t number) const { return values[number].object; }
  size_t valueCount() const { return values.size(); }
  size_t dictCount() const { return dicts.size(); }

private:
  bool lookAgain(Dict &dict, PyObject *stale);
  std::vector<Dict> dicts;
  std::vector<Value> values;
  std::vector<Constant> constants;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_MODULESTATE_H
