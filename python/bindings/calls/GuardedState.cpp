//===- GuardedState.cpp - the state that passed guards depend on ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/GuardedState.h"
#include "support/Items.h"
#include "support/Stable.h"

#include <algorithm>
#include <cstring>

using namespace anabranch::python;

namespace {

/// Words whose memory is fetched before they are compared: enough for the next
/// ones to arrive while earlier ones are compared.
constexpr size_t ahead = 16;

uint64_t read(const void *place) {
  uint64_t value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

/// Whether a value of this type neither changes nor holds other objects.
bool isPlain(PyObject *value) {
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
         PyFloat_CheckExact(value) || PyComplex_CheckExact(value) ||
         PyUnicode_CheckExact(value) || PyBytes_CheckExact(value);
}

/// A plain value, or a tuple of such values.
bool isLasting(PyObject *value) {
  if (!PyTuple_CheckExact(value))
    return isPlain(value);
  for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i)
    if (!isLasting(PyTuple_GetItem(value, i)))
      return false;
  return true;
}

Ref owned(PyObject *object) {
  Py_INCREF(object);
  return Ref(object);
}

} // namespace

bool GuardedState::isPossible() {
  Ref dict(PyDict_New());
  return dict && dictVersionPlace(dict.get());
}

void GuardedState::addRoot(PyObject *name, PyObject *object) {
  roots.push_back({owned(name), object});
}

GuardedState::Word GuardedState::wordAt(const void *place) {
  return {place, read(place)};
}

PyObject *GuardedState::addObject(PyObject *object) {
  PyObject **place = dictPlace(object);
  if (!place || !*place || !PyDict_Check(*place))
    return nullptr;
  words.push_back(wordAt(&object->ob_type));
  words.push_back(wordAt(place));
  return *place;
}

size_t GuardedState::addDict(PyObject *dict) {
  dicts.push_back({dict, words.size(), false, {}});
  words.push_back(wordAt(dictVersionPlace(dict)));
  return dicts.size() - 1;
}

bool GuardedState::addClass(PyTypeObject *type) {
  uint64_t version = typeVersion(type);
  if (version)
    classes.push_back({type, version});
  return version != 0;
}

void GuardedState::addFunction(PyObject *function) {
  late.push_back(wordAt(codePlace(function)));
}

void GuardedState::addLateDict(PyObject *dict) {
  late.push_back(wordAt(dictVersionPlace(dict)));
}

bool GuardedState::addItem(size_t dict, PyObject *key, PyObject *value) {
  Ref keeper;
  if (value && isLasting(value))
    keeper = owned(value);
  else if (value && !PyDict_CheckExact(value)) {
    keeper.reset(PyWeakref_NewRef(value, nullptr));
    if (!keeper) {
      PyErr_Clear();
      return false;
    }
  }
  dicts[dict].items.push_back({owned(key), value, std::move(keeper)});
  return true;
}

bool GuardedState::hasRoots(PyObject *locals) const {
  return std::all_of(roots.begin(), roots.end(), [&](const Root &root) {
    return PyDict_GetItem(locals, root.name.get()) == root.object;
  });
}

bool GuardedState::isUnchanged() {
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + ahead < words.size())
      __builtin_prefetch(words[i + ahead].place);
    if (read(words[i].place) != words[i].value && !hasSameItems(i))
      return false;
  }
  auto isSameClass = [](const Class &known) {
    return typeVersion(known.type) == known.version;
  };
  auto isSameWord = [](const Word &word) {
    return read(word.place) == word.value;
  };
  return std::all_of(classes.begin(), classes.end(), isSameClass) &&
         std::all_of(late.begin(), late.end(), isSameWord) && hasSameTensors();
}

bool GuardedState::hasSameTensors() const {
  if (!tensorCheck)
    return true;
  Ref all(PyTuple_New(Py_ssize_t(tensors.size())));
  for (size_t i = 0; all && i < tensors.size(); ++i)
    fillTuple(all.get(), Py_ssize_t(i), Py_NewRef(tensors[i]));
  Ref result(all ? PyObject_CallObject(tensorCheck.get(), all.get()) : nullptr);
  if (!result)
    PyErr_Clear();
  return result.get() == Py_True;
}

bool GuardedState::hasSameItems(size_t word) {
  auto found = std::lower_bound(
      dicts.begin(), dicts.end(), word,
      [](const Dict &dict, size_t number) { return dict.word < number; });
  if (found == dicts.end() || found->word != word || found->isWhole)
    return false;
  for (const Item &item : found->items)
    if (!isSame(*found, item))
      return false;
  words[word].value = read(words[word].place);
  return true;
}

bool GuardedState::isSame(const Dict &dict, const Item &item) {
  PyObject *value = PyDict_GetItemWithError(dict.dict, item.key.get());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  if (value != item.value || !item.keeper ||
      !PyWeakref_Check(item.keeper.get()))
    return value == item.value;
  // A new object may have the address of one that was freed.
  return PyWeakref_GetObject(item.keeper.get()) == value;
}
