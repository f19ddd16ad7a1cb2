//===- BindReplay.cpp - a graph that fetches its parameters ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/ModuleState.h"
#include "calls/Program.h"
#include "calls/SameValue.h"
#include "module/Bind.h"
#include "support/Items.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch::python;

namespace {

using ContainerRow = std::tuple<int32_t, nb::object, Within, nb::object>;
using ValueRow = std::tuple<uint32_t, nb::object, uint32_t>;
using ConstantRow = std::tuple<uint32_t, nb::object, ModuleState::Compared,
                               nb::object, std::string>;

Ref hold(nb::handle object) { return Ref(object.inc_ref().ptr()); }

/// A name, to be compared by address as those of attributes are, or a place in
/// a sequence.
Ref keyOf(nb::object object, Within within) {
  bool isPlace = within == Within::Sequence;
  if (isPlace ? !PyLong_CheckExact(object.ptr())
              : !PyUnicode_CheckExact(object.ptr()))
    throw nb::type_error("a key of another kind than its container's");
  PyObject *key = object.release().ptr();
  if (!isPlace)
    PyUnicode_InternInPlace(&key);
  return Ref(key);
}

/// A graph's call: takes the module and what it can't find in the module.
struct GraphCall {
  Ref inner, stale;
  Program *program = nullptr; ///< `inner`, where it is one
  ModuleState state;
  std::vector<uint32_t> places; ///< of the values among the arguments
  std::vector<uint32_t> given;  ///< of what the caller gives

  PyObject *call(PyObject *arguments);
};

PyObject *GraphCall::call(PyObject *arguments) {
  if (!inner || size_t(tupleSize(arguments)) != given.size() + 1)
    return PyErr_Format(PyExc_TypeError, "expected a module and %zu arguments",
                        given.size());
  if (!state.follow(tupleItem(arguments, 0), stale.get()))
    return nullptr;
  Ref all(PyTuple_New(Py_ssize_t(places.size() + given.size())));
  if (!all)
    return nullptr;
  for (size_t i = 0; i < places.size(); ++i)
    fillTuple(all.get(), places[i], Py_NewRef(state.value(i)));
  for (size_t i = 0; i < given.size(); ++i)
    fillTuple(all.get(), given[i], Py_NewRef(tupleItem(arguments, i + 1)));
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

/// Adds what is told by rows; each may name containers before it.
class StateBuilder {
public:
  explicit StateBuilder(ModuleState &state) : state(state) {}

  void add(const ContainerRow &row) {
    const auto &[parent, key, within, root] = row;
    if (parent < -1 || parent >= int32_t(kinds.size()))
      throw nb::value_error("a container in none before it");
    ModuleState::Container container;
    container.parent = parent;
    container.key = parent < 0 ? hold(key) : keyOf(key, kinds[size_t(parent)]);
    container.within = within;
    if (!root.is_none())
      container.root = hold(root);
    kinds.push_back(container.within);
    state.add(std::move(container));
  }

  void add(const ValueRow &row) {
    const auto &[container, key, place] = row;
    check(container);
    state.add(ModuleState::Value{container, keyOf(key, kinds[container])});
  }

  void add(const ConstantRow &row) {
    const auto &[container, key, compared, value, name] = row;
    check(container);
    Within within = kinds[container];
    bool isItem = compared == ModuleState::Compared::Item ||
                  compared == ModuleState::Compared::Type;
    if (!isItem && within != Within::Dict && within != Within::Sequence)
      throw nb::value_error("only dicts and lists have a length");
    // An empty tuple around nothing, a tuple of one around a value.
    nb::tuple known = nb::cast<nb::tuple>(value);
    state.add(ModuleState::Constant{
        container, isItem ? keyOf(key, within) : nullptr, compared,
        known.size() ? hold(known[0]) : nullptr, name});
  }

private:
  void check(uint32_t container) const {
    if (container >= kinds.size())
      throw nb::value_error("no container of this number");
  }

  ModuleState &state;
  std::vector<Within> kinds;
};

void makeGraphCall(GraphCall *self, nb::object inner, nb::object stale,
                   uint32_t arguments,
                   const std::vector<ContainerRow> &containers,
                   const std::vector<ValueRow> &values,
                   const std::vector<ConstantRow> &constants) {
  if (values.size() > arguments)
    throw nb::value_error("more values than arguments");
  GraphCall made;
  made.inner = hold(inner);
  made.stale = hold(stale);
  if (nb::isinstance<Program>(inner))
    made.program = nb::inst_ptr<Program>(inner);
  StateBuilder builder(made.state);
  for (const ContainerRow &row : containers)
    builder.add(row);
  for (const ValueRow &row : values) {
    builder.add(row);
    made.places.push_back(std::get<2>(row));
  }
  for (const ConstantRow &row : constants)
    builder.add(row);
  made.given.resize(arguments - values.size());
  fillPlaces(made);
  new (self) GraphCall(std::move(made));
}

/// A held object may hold the module, and the module the function that holds
/// this.
int traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self))
    return 0;
  auto *call = nb::inst_ptr<GraphCall>(nb::handle(self));
  Py_VISIT(call->inner.get());
  Py_VISIT(call->stale.get());
  return call->state.traverse(visit, arg);
}

int clear(PyObject *self) {
  auto *call = nb::inst_ptr<GraphCall>(nb::handle(self));
  GraphCall empty = std::move(*call);
  *call = GraphCall();
  return 0;
}

PyObject *callGraph(PyObject *self, PyObject *arguments, PyObject *keywords) {
  if (keywords && !isEmptyDict(keywords)) {
    PyErr_SetString(PyExc_TypeError, "arguments are passed by position");
    return nullptr;
  }
  return nb::inst_ptr<GraphCall>(nb::handle(self))->call(arguments);
}

} // namespace

void anabranch::python::bindReplay(nb::module_ &module) {
  using Compared = ModuleState::Compared;
  nb::enum_<Within>(module, "Within")
      .value("Attributes", Within::Attributes)
      .value("Dict", Within::Dict)
      .value("Sequence", Within::Sequence)
      .value("Function", Within::Function)
      .value("Cell", Within::Cell)
      .value("Class", Within::Class);
  nb::enum_<Compared>(module, "Compared")
      .value("Item", Compared::Item)
      .value("Length", Compared::Length)
      .value("Keys", Compared::Keys)
      .value("Type", Compared::Type);
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void *>(callGraph)},
      {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
      {Py_tp_clear, reinterpret_cast<void *>(clear)},
      {0, nullptr}};
  nb::class_<GraphCall>(module, "GraphCall", nb::type_slots(slots))
      .def("__init__", &makeGraphCall, nb::arg("inner"), nb::arg("stale"),
           nb::arg("arguments"), nb::arg("containers"), nb::arg("values"),
           nb::arg("constants"));
  module.def(
      "same_value",
      [](nb::handle value, nb::handle known) {
        return sameValue(value.ptr(), known.ptr());
      },
      nb::arg("value").none(), nb::arg("known").none());
}
