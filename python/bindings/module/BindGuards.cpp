//===- BindGuards.cpp - guards that passed --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/GuardedState.h"
#include "module/Bind.h"
#include "support/Stable.h"

namespace nb = nanobind;
using namespace anabranch::python;

namespace {

/// A guard of Dynamo's that stands for many: it passes where they passed
/// before and nothing has changed, and asks them else.
struct PassedGuards {
  /// Models whose states are kept: the layers of a large model may share one
  /// compilation.
  static constexpr size_t most = 128;

  nb::object again;
  std::vector<nb::object> states; ///< of the type GuardedState, oldest first
  uint64_t passed = 0;            ///< calls that asked no other guard

  void remember(nb::object state);
  bool knows(PyObject *locals);
};

void PassedGuards::remember(nb::object state) {
  if (states.size() == most)
    states.erase(states.begin());
  states.push_back(std::move(state));
}

bool PassedGuards::knows(PyObject *locals) {
  for (size_t i = states.size(); i-- > 0;) {
    auto *state = nb::inst_ptr<GuardedState>(states[i]);
    if (!state->hasRoots(locals))
      continue;
    if (state->isUnchanged()) {
      ++passed;
      return true;
    }
    states.erase(states.begin() + ptrdiff_t(i));
    return false;
  }
  return false;
}

/// tp_call, with the frame's local variables.
PyObject *callGuards(PyObject *self, PyObject *arguments, PyObject *) {
  PyObject *locals = nullptr;
  if (!PyArg_ParseTuple(arguments, "O", &locals))
    return nullptr;
  auto *guards = nb::inst_ptr<PassedGuards>(nb::handle(self));
  if (PyDict_Check(locals) && guards->knows(locals))
    Py_RETURN_TRUE;
  nb::object again = guards->again;
  return PyObject_CallFunctionObjArgs(again.ptr(), self, locals, nullptr);
}

nb::object addObject(GuardedState &self, nb::handle object) {
  PyObject *dict = self.addObject(object.ptr());
  return dict ? nb::borrow(dict) : nb::none();
}

size_t addDict(GuardedState &self, nb::dict dict) {
  return self.addDict(dict.ptr());
}

bool addClass(GuardedState &self, nb::handle_t<nb::type_object> type) {
  return self.addClass(reinterpret_cast<PyTypeObject *>(type.ptr()));
}

void addFunction(GuardedState &self, nb::handle function) {
  if (!isFunction(function.ptr()))
    throw nb::type_error("not a function of Python");
  self.addFunction(function.ptr());
}

bool addItem(GuardedState &self, size_t dict, nb::str key, nb::handle value) {
  return self.addItem(dict, key.ptr(), value.ptr());
}

void addAbsence(GuardedState &self, size_t dict, nb::str key) {
  self.addItem(dict, key.ptr(), nullptr);
}

} // namespace

void anabranch::python::bindGuards(nb::module_ &module) {
  nb::class_<GuardedState>(module, "GuardedState")
      .def(nb::init<>())
      .def_static("is_possible", &GuardedState::isPossible)
      .def("add_root",
           [](GuardedState &self, nb::str name, nb::handle object) {
             self.addRoot(name.ptr(), object.ptr());
           })
      .def("add_object", &addObject)
      .def("add_dict", &addDict)
      .def("add_late_dict", [](GuardedState &self,
                               nb::dict dict) { self.addLateDict(dict.ptr()); })
      .def("add_type", &addClass)
      .def("add_function", &addFunction)
      .def("add_item", &addItem, nb::arg("dict"), nb::arg("key"),
           nb::arg("value").none())
      .def("add_absence", &addAbsence)
      .def("add_tensors",
           [](GuardedState &self, nb::list tensors, nb::object check) {
             for (nb::handle tensor : tensors)
               self.addTensor(tensor.ptr());
             self.setTensorCheck(Ref(check.release().ptr()));
           })
      .def("add_whole", &GuardedState::addWhole);

  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void *>(callGuards)}, {0, nullptr}};
  nb::class_<PassedGuards>(module, "PassedGuards", nb::type_slots(slots))
      .def("__init__",
           [](PassedGuards *self, nb::object again) {
             new (self) PassedGuards{std::move(again), {}, 0};
           })
      .def("remember", &PassedGuards::remember)
      .def_ro("passed", &PassedGuards::passed);
}
