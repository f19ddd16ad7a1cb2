//===- ModuleState.cpp - what a call takes from its module ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/ModuleState.h"
#include "calls/SameValue.h"
#include "support/Items.h"
#include "support/Stable.h"

using namespace anabranch::python;

namespace {

/// The number of the container's last change. Zero, which is never equal:
/// CPython does not count its changes.
uint64_t versionOf(PyObject *found, Within within) {
  if (within == Within::Attributes || within == Within::Dict)
    return dictVersion(found);
  if (within == Within::Class)
    return typeVersion(reinterpret_cast<PyTypeObject *>(found));
  return 0;
}

/// The object that holds the values, borrowed; null if `object` is of another
/// kind.
PyObject *containerOf(PyObject *object, Within within) {
  auto only = [&](bool fits) { return fits ? object : nullptr; };
  switch (within) {
  case Within::Attributes:
    return dictOf(object);
  case Within::Dict:
    return only(PyDict_Check(object));
  case Within::Sequence:
    return only(PyList_Check(object) || PyTuple_Check(object));
  case Within::Function:
    return only(isFunction(object));
  case Within::Cell:
    return only(isCell(object));
  default:
    return reinterpret_cast<PyObject *>(Py_TYPE(object));
  }
}

/// The value under the key, borrowed; null if there is none.
PyObject *itemOf(PyObject *found, Within within, PyObject *key) {
  switch (within) {
  case Within::Attributes:
  case Within::Dict:
    return PyDict_GetItemWithError(found, key);
  case Within::Sequence: {
    Py_ssize_t index = PyLong_AsSsize_t(key);
    bool isThere = index >= 0 && index < Py_SIZE(found);
    return isThere ? sequenceItem(found, index) : nullptr;
  }
  case Within::Function:
    return functionSlot(found, key);
  case Within::Cell:
    return cellContents(found);
  default:
    return typeAttribute(reinterpret_cast<PyTypeObject *>(found), key);
  }
}

bool refuse(PyObject *stale, const char *format, PyObject *what,
            PyObject *value = nullptr) {
  if (!PyErr_Occurred())
    PyErr_Format(stale, format, what, value);
  return false;
}

} // namespace

void ModuleState::add(Container container) {
  auto number = uint32_t(containers.size());
  if (container.parent >= 0)
    containers[size_t(container.parent)].children.push_back(number);
  containers.push_back(std::move(container));
}

void ModuleState::add(Value value) {
  containers[value.container].values.push_back(uint32_t(values.size()));
  values.push_back(std::move(value));
}

void ModuleState::add(Constant constant) {
  containers[constant.container].constants.push_back(
      uint32_t(constants.size()));
  constants.push_back(std::move(constant));
}

int ModuleState::traverse(visitproc visit, void *argument) const {
  for (const Container &container : containers)
    if (int stopped =
            container.root ? visit(container.root.get(), argument) : 0)
      return stopped;
  for (const Constant &constant : constants)
    if (int stopped =
            constant.value ? visit(constant.value.get(), argument) : 0)
      return stopped;
  return 0;
}

bool ModuleState::follow(PyObject *module, PyObject *stale) {
  for (Container &container : containers) {
    PyObject *holder = container.parent >= 0 ? container.holder
                       : container.root      ? container.root.get()
                                             : module;
    PyObject *found = containerOf(holder, container.within);
    if (!found)
      return refuse(stale, "what is at %R is of another kind",
                    container.key.get());
    uint64_t version = versionOf(found, container.within);
    if (found == container.found && version == container.version && version)
      continue;
    container.found = found;
    if (!lookAgain(container, stale)) {
      container.version = 0;
      return false;
    }
    container.version = versionOf(found, container.within);
  }
  return true;
}

bool ModuleState::lookAgain(Container &container, PyObject *stale) {
  auto get = [&](const Ref &key) {
    return itemOf(container.found, container.within, key.get());
  };
  for (uint32_t number : container.children) {
    Container &child = containers[number];
    child.holder = get(child.key);
    if (!child.holder)
      return refuse(stale, "%R is gone", child.key.get());
  }
  for (uint32_t number : container.values) {
    values[number].object = get(values[number].key);
    if (!values[number].object)
      return refuse(stale, "%R is gone", values[number].key.get());
  }
  for (uint32_t number : container.constants)
    if (!compare(container, constants[number], stale))
      return false;
  return true;
}

bool ModuleState::compare(const Container &container, const Constant &constant,
                          PyObject *stale) const {
  PyObject *found = container.found;
  Ref made;
  PyObject *value = nullptr;
  if (constant.compared == Compared::Item ||
      constant.compared == Compared::Type) {
    value = itemOf(found, container.within, constant.key.get());
    if (value && constant.compared == Compared::Type)
      value = reinterpret_cast<PyObject *>(Py_TYPE(value));
  } else {
    made.reset(constant.compared == Compared::Length
                   ? PyLong_FromSsize_t(PyObject_Size(found))
                   : PySequence_Tuple(found));
    value = made.get();
  }
  if (PyErr_Occurred())
    return false;
  PyObject *known = constant.value.get();
  if (value && known ? sameValue(value, known) : value == known)
    return true;
  Ref name(PyUnicode_FromString(constant.name.c_str()));
  return name && refuse(stale, "%U is %R, which the trace did not see",
                        name.get(), value ? value : Py_None);
}
