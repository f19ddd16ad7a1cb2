//===- GuardedState.h - the state that passed guards depend on --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Guards of Dynamo's walk through a model at every call: through thousands of
// objects, most of which have left the caches since the last call. Where they
// walk, nearly nothing changes between two calls, and CPython numbers the
// changes of dicts and classes. So what a walk depends on is a list of words of
// memory: classes of objects, addresses of dicts, numbers of changes. While
// each word is as it was when the guards passed, they pass again. A replayed
// call, which has no guards to ask, compares the values themselves
// (ModuleState.h).

#ifndef ANABRANCH_BINDINGS_GUARDEDSTATE_H
#define ANABRANCH_BINDINGS_GUARDEDSTATE_H

#include "support/Ref.h"

#include <cstdint>
#include <vector>

namespace anabranch::python {

/// What was found on the way from local variables to values. An object is noted
/// after the one that holds it, so its memory is read only after the holder was
/// found unchanged; nothing of the model is kept alive. If a dict changed, the
/// noted items are compared. All functions need the GIL.
class GuardedState {
public:
  GuardedState() = default;
  GuardedState(GuardedState &&) = default;
  GuardedState(const GuardedState &) = delete;

  /// Whether this CPython counts changes. Else no other function may be called.
  static bool isPossible();

  /// The local variable `name` is this object.
  void addRoot(PyObject *name, PyObject *object);
  /// The object's class and its own dict, which is returned, borrowed. Null: it
  /// has none.
  PyObject *addObject(PyObject *object);
  /// The dict's number.
  size_t addDict(PyObject *dict);
  /// What the class and its bases define. False if CPython has no number for
  /// it.
  bool addClass(PyTypeObject *type);
  /// The code of a function of Python, which a class may hold.
  void addFunction(PyObject *function);
  /// A dict that a class holds. Any change of it counts.
  void addLateDict(PyObject *dict);

  /// A tensor that an item holds, in the order in which `check` takes tensors.
  void addTensor(PyObject *tensor) { tensors.push_back(tensor); }
  /// What says whether the tensors have the properties of those that were
  /// traced: a callable, owned.
  void setTensorCheck(Ref check) { tensorCheck = std::move(check); }

  /// The dict has this value under the key; null: nothing. False, and nothing
  /// is noted, if another object might take the value's place unseen.
  bool addItem(size_t dict, PyObject *key, PyObject *value);
  /// Any change of the dict counts.
  void addWhole(size_t dict) { dicts[dict].isWhole = true; }

  /// Whether a frame with these local variables begins at the same objects.
  bool hasRoots(PyObject *locals) const;
  /// Whether all is as it was, if the roots are.
  bool isUnchanged();

private:
  /// Eight bytes of an object, and what they were.
  struct Word {
    const void *place;
    uint64_t value;
  };
  struct Root {
    Ref name;
    PyObject *object;
  };
  struct Item {
    Ref key;
    PyObject *value;
    Ref keeper; ///< the value itself, or a weak reference; null: a dict's words
                ///< follow
  };
  struct Dict {
    PyObject *dict;
    size_t word; ///< the number of its changes
    bool isWhole = false;
    std::vector<Item> items;
  };
  struct Class {
    PyTypeObject *type;
    uint64_t version;
  };

  static Word wordAt(const void *place);
  bool hasSameItems(size_t word);
  bool hasSameTensors() const;
  static bool isSame(const Dict &dict, const Item &item);

  std::vector<Root> roots;
  std::vector<Word> words;
  std::vector<Dict> dicts; ///< by their words
  std::vector<Class> classes;
  std::vector<PyObject *> tensors;
  Ref tensorCheck;
  std::vector<Word> late; ///< of what classes may hold
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_GUARDEDSTATE_H
