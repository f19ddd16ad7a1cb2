//===- BindFrozen.cpp - frozen weights that may change --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/FrozenWeights.h"
#include "module/Bind.h"

#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch::python;

namespace {

void makeFrozen(FrozenWeights *self, const std::vector<nb::object> &tensors) {
  FrozenWeights made;
  for (const nb::object &tensor : tensors)
    made.add(tensor.ptr());
  new (self) FrozenWeights(std::move(made));
}

/// tp_call: a guard of Dynamo's, which hands over a value of no interest here.
PyObject *callWeights(PyObject *self, PyObject *, PyObject *) {
  return PyBool_FromLong(
      nb::inst_ptr<FrozenWeights>(nb::handle(self))->sameLayout());
}

nb::list tensors(const FrozenWeights &self) {
  nb::list found;
  for (size_t i = 0; i < self.size(); ++i)
    found.append(nb::steal(self.tensor(i)));
  return found;
}

} // namespace

void anabranch::python::bindFrozen(nb::module_ &module) {
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void *>(callWeights)}, {0, nullptr}};
  nb::class_<FrozenWeights>(module, "FrozenWeights", nb::type_slots(slots))
      .def("__init__", &makeFrozen, nb::arg("tensors"))
      .def("unchanged", &FrozenWeights::unchanged)
      .def("changed", &FrozenWeights::changed)
      .def("same_layout", &FrozenWeights::sameLayout)
      .def("tensors", &tensors);
}
