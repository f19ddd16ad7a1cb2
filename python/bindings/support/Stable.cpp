//===- Stable.cpp - parts of objects that the stable ABI hides ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/Stable.h"
#include "support/Items.h"

using namespace anabranch;

#ifdef Py_LIMITED_API

namespace {

/// Leaves it to the object that the reference came from.
PyObject *borrowed(PyObject *object) {
  if (object)
    Py_DECREF(object);
  else
    PyErr_Clear();
  return object;
}

/// A class of the module `types`, for good.
PyTypeObject *classOfTypes(const char *name) {
  PyObject *module = PyImport_ImportModule("types");
  PyObject *found = module ? PyObject_GetAttrString(module, name) : nullptr;
  Py_XDECREF(module);
  if (!found)
    PyErr_Clear();
  return reinterpret_cast<PyTypeObject *>(found);
}

} // namespace

std::string python::typeName(PyObject *object) {
  PyObject *name = PyType_GetName(Py_TYPE(object));
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, nullptr) : nullptr;
  std::string spelled = text ? text : "an object";
  Py_XDECREF(name);
  return spelled;
}

bool python::isFunction(PyObject *object) {
  static PyTypeObject *const type = classOfTypes("FunctionType");
  return type && Py_TYPE(object) == type;
}

bool python::isCell(PyObject *object) {
  static PyTypeObject *const type = classOfTypes("CellType");
  return type && Py_TYPE(object) == type;
}

PyObject *python::dictOf(PyObject *object) {
  PyObject *dict = borrowed(PyObject_GenericGetDict(object, nullptr));
  return dict && PyDict_Check(dict) ? dict : nullptr;
}

PyObject *python::typeAttribute(PyTypeObject *type, PyObject *name) {
  auto *object = reinterpret_cast<PyObject *>(type);
  PyObject *order = borrowed(PyObject_GetAttrString(object, "__mro__"));
  for (Py_ssize_t i = 0; order && i < tupleSize(order); ++i) {
    PyObject *names = PyObject_GetAttrString(tupleItem(order, i), "__dict__");
    PyObject *found = names ? PyObject_GetItem(names, name) : nullptr;
    Py_XDECREF(names);
    if (borrowed(found))
      return found;
  }
  return nullptr;
}

PyObject *python::functionSlot(PyObject *function, PyObject *name) {
  return borrowed(PyObject_GetAttr(function, name));
}

PyObject *python::cellContents(PyObject *cell) {
  return borrowed(PyObject_GetAttrString(cell, "cell_contents"));
}

uint64_t python::dictVersion(PyObject *) { return 0; }
uint64_t python::typeVersion(PyTypeObject *) { return 0; }
const uint64_t *python::dictVersionPlace(PyObject *) { return nullptr; }
PyObject **python::dictPlace(PyObject *) { return nullptr; }
PyObject **python::codePlace(PyObject *) { return nullptr; }

#else

std::string python::typeName(PyObject *object) {
  return Py_TYPE(object)->tp_name;
}

bool python::isFunction(PyObject *object) { return PyFunction_Check(object); }
bool python::isCell(PyObject *object) { return PyCell_Check(object); }

PyObject *python::dictOf(PyObject *object) {
  PyObject **place = _PyObject_GetDictPtr(object);
  return place && *place && PyDict_Check(*place) ? *place : nullptr;
}

PyObject *python::typeAttribute(PyTypeObject *type, PyObject *name) {
  return _PyType_Lookup(type, name);
}

PyObject *python::functionSlot(PyObject *function, PyObject *name) {
  auto isName = [&](const char *other) {
    return PyUnicode_CompareWithASCIIString(name, other) == 0;
  };
  PyObject *slot = isName("__defaults__") ? PyFunction_GET_DEFAULTS(function)
                   : isName("__kwdefaults__")
                       ? PyFunction_GET_KW_DEFAULTS(function)
                   : isName("__closure__") ? PyFunction_GET_CLOSURE(function)
                                           : PyFunction_GET_CODE(function);
  return slot ? slot : Py_None;
}

PyObject *python::cellContents(PyObject *cell) { return PyCell_GET(cell); }

uint64_t python::dictVersion(PyObject *dict) {
  const uint64_t *place = dictVersionPlace(dict);
  return place ? *place : 0;
}

const uint64_t *python::dictVersionPlace([[maybe_unused]] PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
  return &reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  return nullptr;
#endif
}

PyObject **python::dictPlace(PyObject *object) {
  return _PyObject_GetDictPtr(object);
}

PyObject **python::codePlace(PyObject *function) {
  return &reinterpret_cast<PyFunctionObject *>(function)->func_code;
}

uint64_t python::typeVersion(PyTypeObject *type) {
  bool counts = PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
  return counts ? type->tp_version_tag : 0;
}

#endif
