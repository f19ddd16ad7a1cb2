//===- BindReplay.cpp - a graph that fetches its parameters ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "Bind.h"
#include "ModuleState.h"
#include "Program.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch::python;

namespace {

using DictRow = std::tuple<int32_t, nb::str, bool, nb::object>;
using ValueRow = std::tuple<uint32_t, nb::str, uint32_t>;
using ConstantRow = std::tuple<uint32_t, nb::str, nb::object, std::string>;

Ref hold(nb::handle object) { return Ref(object.inc_ref().ptr()); }

/// Keys that are compared by address, as those of attributes are.
Ref interned(nb::str text) {
  PyObject *key = text.release().ptr();
  PyUnicode_InternInPlace(&key);
  return Ref(key);
}

/// A graph's call: takes the module and what it can't find in the module.
struct GraphCall {
  Ref inner, stale;
  const Program *program = nullptr; ///< `inner`, where it is one
  ModuleState state;
  std::vector<uint32_t> places; ///< of the values among the arguments
  std::vector<uint32_t> given;  ///< of what the caller gives

  PyObject *call(PyObject *arguments);
};

PyObject *GraphCall::call(PyObject *arguments) {
  if (size_t(PyTuple_GET_SIZE(arguments)) != given.size() + 1)
    return PyErr_Format(PyExc_TypeError, "expected a module and %zu arguments",
                        given.size());
  if (!state.follow(PyTuple_GET_ITEM(arguments, 0), stale.get()))
    return nullptr;
  Ref all(PyTuple_New(Py_ssize_t(places.size() + given.size())));
  if (!all)
    return nullptr;
  for (size_t i = 0; i < places.size(); ++i)
    PyTuple_SET_ITEM(all.get(), places[i], Py_NewRef(state.value(i)));
  for (size_t i = 0; i < given.size(); ++i)
    PyTuple_SET_ITEM(all.get(), given[i],
                     Py_NewRef(PyTuple_GET_ITEM(arguments, i + 1)));
  return program ? program->call(all.get())
                 : PyObject_CallObject(inner.get(), all.get());
}

void fillPlaces(GraphCall &self) {
  std::vector<bool> taken(self.places.size() + self.given.size());
  for (uint32_t place : self.places) {
    if (place >= taken.size() || taken[place])
      throw nb::value_error("no argument of this number, or twice");
    taken[place] = true;
  }
  size_t next = 0;
  for (uint32_t i = 0; i < taken.size(); ++i)
    if (!taken[i])
      self.given[next++] = i;
}

void make(GraphCall *self, nb::object inner, nb::object stale,
          uint32_t arguments, const std::vector<DictRow> &dicts,
          const std::vector<ValueRow> &values,
          const std::vector<ConstantRow> &constants) {
  if (values.size() > arguments)
    throw nb::value_error("more values than arguments");
  GraphCall made;
  made.inner = hold(inner);
  made.stale = hold(stale);
  if (nb::isinstance<Program>(inner))
    made.program = nb::inst_ptr<Program>(inner);
  for (const auto &[parent, key, attributes, root] : dicts) {
    if (parent >= int32_t(made.state.dictCount()) ||
        (!root.is_none() && !nb::isinstance<nb::dict>(root)))
      throw nb::value_error("a dict in no dict before it");
    ModuleState::Dict dict;
    dict.parent = parent;
    dict.key = interned(key);
    dict.attributes = attributes;
    if (!root.is_none())
      dict.root = hold(root);
    made.state.add(std::move(dict));
  }
  auto check = [&](uint32_t dict) {
    if (dict >= made.state.dictCount())
      throw nb::value_error("no dict of this number");
  };
  for (const auto &[dict, key, place] : values) {
    check(dict);
    made.state.add(ModuleState::Value{dict, interned(key)});
    made.places.push_back(place);
  }
  for (const auto &[dict, key, value, name] : constants) {
    check(dict);
    // An empty tuple around nothing, a tuple of one around a value.
    nb::tuple known = nb::cast<nb::tuple>(value);
    made.state.add(ModuleState::Constant{
        dict, interned(key), known.size() ? hold(known[0]) : nullptr, name});
  }
  made.given.resize(arguments - values.size());
  fillPlaces(made);
  new (self) GraphCall(std::move(made));
}

PyObject *callGraph(PyObject *self, PyObject *arguments, PyObject *keywords) {
  if (keywords && PyDict_GET_SIZE(keywords) != 0) {
    PyErr_SetString(PyExc_TypeError, "arguments are passed by position");
    return nullptr;
  }
  return nb::inst_ptr<GraphCall>(nb::handle(self))->call(arguments);
}

} // namespace

void anabranch::python::bindReplay(nb::module_ &module) {
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void *>(callGraph)}, {0, nullptr}};
  nb::class_<GraphCall>(module, "GraphCall", nb::type_slots(slots))
      .def("__init__", &make, nb::arg("inner"), nb::arg("stale"),
           nb::arg("arguments"), nb::arg("dicts"), nb::arg("values"),
           nb::arg("constants"));
}
