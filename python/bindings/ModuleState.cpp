//===- ModuleState.cpp - what a call takes from its module ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "ModuleState.h"

using namespace anabranch::python;

namespace {

/// A number that no other state of any dict has had; 0 where CPython does not
/// count, which is never equal.
uint64_t versionOf(PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}

/// The attributes of an object, borrowed; null where it has none.
PyObject *attributesOf(PyObject *object) {
  PyObject **place = _PyObject_GetDictPtr(object);
  return place ? *place : nullptr;
}

/// Whether a value is the constant that a trace saw: of the same type too,
/// since True is not 1.
bool isSame(PyObject *value, PyObject *known) {
  if (value == known || !value || !known)
    return value == known;
  return Py_TYPE(value) == Py_TYPE(known) &&
         PyObject_RichCompareBool(value, known, Py_EQ) == 1;
}

bool refuse(PyObject *stale, const char *format, PyObject *what,
            PyObject *value = nullptr) {
  if (!PyErr_Occurred())
    PyErr_Format(stale, format, what, value);
  return false;
}

} // namespace

void ModuleState::add(Dict dict) {
  auto number = uint32_t(dicts.size());
  if (dict.parent >= 0)
    dicts[size_t(dict.parent)].children.push_back(number);
  dicts.push_back(std::move(dict));
}

void ModuleState::add(Value value) {
  dicts[value.dict].values.push_back(uint32_t(values.size()));
  values.push_back(std::move(value));
}

void ModuleState::add(Constant constant) {
  dicts[constant.dict].constants.push_back(uint32_t(constants.size()));
  constants.push_back(std::move(constant));
}

bool ModuleState::follow(PyObject *module, PyObject *stale) {
  for (Dict &dict : dicts) {
    PyObject *holder = dict.parent >= 0 ? dict.holder
                       : dict.root      ? dict.root.get()
                                        : module;
    PyObject *found = dict.attributes ? attributesOf(holder) : holder;
    if (!found || !PyDict_Check(found))
      return refuse(stale, "there is no dict at %R", dict.key.get());
    uint64_t version = versionOf(found);
    if (found == dict.dict && version == dict.version && version)
      continue;
    dict.dict = found;
    if (!lookAgain(dict, stale)) {
      dict.version = 0;
      return false;
    }
    dict.version = version;
  }
  return true;
}

bool ModuleState::lookAgain(Dict &dict, PyObject *stale) {
  auto get = [&](const Ref &key) {
    return PyDict_GetItemWithError(dict.dict, key.get());
  };
  for (uint32_t number : dict.children) {
    Dict &child = dicts[number];
    child.holder = get(child.key);
    if (!child.holder)
      return refuse(stale, "%R is gone", child.key.get());
  }
  for (uint32_t number : dict.values) {
    values[number].object = get(values[number].key);
    if (!values[number].object)
      return refuse(stale, "%R is gone", values[number].key.get());
  }
  for (uint32_t number : dict.constants) {
    const Constant &constant = constants[number];
    PyObject *value = get(constant.key);
    if (PyErr_Occurred())
      return false;
    if (isSame(value, constant.value.get()))
      continue;
    Ref name(PyUnicode_FromString(constant.name.c_str()));
    return name && refuse(stale, "%U is %R, which the trace did not see",
                          name.get(), value ? value : Py_None);
  }
  return true;
}
